"""Units that are written next to a number, with a space or without: `75 kW` and `75kW`."""

from __future__ import annotations

import re

_UNITS = (
    "mm cm dm m km nm um μm µm yd mi mm2 cm2 m2 km2 mm3 cm3 dm3 m3 mm² cm² m² km² "
    "mm³ cm³ dm³ m³ qm ha "
    "mg g kg t kt lb lbs oz mcg ug μg µg ml cl dl l hl "
    "ms us μs µs ns min h hrs am pm uhr km/h kmh mph rpm "
    "v mv kv ma mah ah w mw kw gw tw wh kwh mwh gwh kwp va kva mva ohm kohm kω mω ω "
    "uf μf µf nf pf hz khz mhz ghz db dba "
    "kb mb gb tb pb kib mib gib tib kbit mbit gbit kbps mbps gbps mp px dpi "
    "pa hpa kpa mpa bar mbar psi kn mn knm kj mj kcal cal kev mev lm lx mol mmol ppm ppb "
    "eur usd chf gbp jpy sek nok dkk pln czk"
)
_SYMBOLS = frozenset(_UNITS.split())
# In English and German.
_NAMES = {
    "mm": "millimetre millimetres millimeter millimeters millimetern",
    "cm": "centimetre centimetres centimeter centimeters zentimeter zentimetern",
    "m": "metre metres meter meters metern",
    "km": "kilometre kilometres kilometer kilometers kilometern",
    "um": "micrometre micrometres micrometer micrometers micron microns mikrometer",
    "ug": "mcg microgram micrograms mikrogramm",
    "mg": "milligram milligrams milligramm",
    "g": "gram grams gramm",
    "kg": "kilogram kilograms kilogramm kilo kilos",
    "t": "tonne tonnes tonnen",
    "ml": "millilitre millilitres milliliter milliliters",
    "l": "litre litres liter liters litern",
    "ms": "millisecond milliseconds millisekunden",
    "min": "minute minutes minuten",
    "h": "hour hours stunde stunden",
    "v": "volt volts",
    "kv": "kilovolt kilovolts",
    "a": "ampere amperes amp amps",
    "w": "watt watts",
    "kw": "kilowatt kilowatts",
    "kwh": "kilowattstunde kilowattstunden",
    "ohm": "ohms \u03c9",
    "kohm": "kilohm kilohms k\u03c9",
    "hz": "hertz",
    "khz": "kilohertz",
    "mhz": "megahertz",
    "ghz": "gigahertz",
    "kb": "kilobyte kilobytes",
    "mb": "megabyte megabytes",
    "gb": "gigabyte gigabytes",
    "tb": "terabyte terabytes",
    "eur": "euro euros",
    "usd": "dollar dollars",
    "%": "percent prozent pourcent procent",
}
_SYMBOL_OF_NAME = {name: symbol for symbol, names in _NAMES.items() for name in names.split()}
PATTERN = "|".join(sorted(_SYMBOLS, key=lambda unit: (-len(unit), unit)))
"""A pattern of units in lower case, as typed or in their NFKC form."""
_MEASURE = re.compile(rf"(\d+)({PATTERN})")


def find_symbol(word: str) -> str:
    """Return the symbol of a unit, given in lower case: `kg` for `kilograms` and for `kg`.

    Returns an empty text for other words.
    """
    if word in _SYMBOL_OF_NAME:
        return _SYMBOL_OF_NAME[word]
    return word if word in _SYMBOLS else ""


def split_measure(word: str) -> tuple[str, ...]:
    """Return the number and unit of a lower-case word: `75` and `kw` of `75kw`, else nothing."""
    match = _MEASURE.fullmatch(word)
    return match.groups() if match else ()
