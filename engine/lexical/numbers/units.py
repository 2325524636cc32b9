"""Units that are written next to a number, with a space or without: `75 kW` and `75kW`."""

from __future__ import annotations

import re

_UNITS = (
    "mm cm dm m km nm um μm µm yd mi mm2 cm2 m2 km2 mm3 cm3 dm3 m3 mm² cm² m² km² "
    "mm³ cm³ dm³ m³ qm ha "
    "mg g kg t kt lb lbs oz ug μg µg ml cl dl l hl "
    "ms us μs µs ns min h hrs am pm uhr km/h kmh mph rpm "
    "v mv kv ma mah ah w mw kw gw tw wh kwh mwh gwh kwp va kva mva ohm kohm kω mω ω "
    "uf μf µf nf pf hz khz mhz ghz db dba "
    "kb mb gb tb pb kib mib gib tib kbit mbit gbit kbps mbps gbps mp px dpi "
    "pa hpa kpa mpa bar mbar psi kn mn knm kj mj kcal cal kev mev lm lx mol mmol ppm ppb "
    "eur usd chf gbp jpy sek nok dkk pln czk"
)
_NAMES = frozenset(_UNITS.split())
PATTERN = "|".join(sorted(_NAMES, key=lambda unit: (-len(unit), unit)))
"""A pattern of units in lower case, as typed or in their NFKC form."""
_MEASURE = re.compile(rf"(\d+)({PATTERN})")


def is_unit(word: str) -> bool:
    """Tell whether a lower-case word is a unit."""
    return word in _NAMES


def split_measure(word: str) -> tuple[str, ...]:
    """Return the number and the unit of a lower-case word such as `75kw`, else nothing."""
    match = _MEASURE.fullmatch(word)
    return match.groups() if match else ()
