"""English verbs and their forms, enough to find the finite verb of a plain sentence."""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

from engine.queries.rules.vocabulary import word_set

AUXILIARIES = word_set("""
is are was were has have had do does did will would shall should can could may might must cannot isn't aren't wasn't
weren't hasn't haven't hadn't doesn't don't didn't won't wouldn't can't couldn't shouldn't mustn't
""")
NEGATED = {
    "cannot": "can", "can't": "can",
    "won't": "will", "isn't": "is", "aren't": "are", "wasn't": "was", "weren't": "were",
    "hasn't": "has", "haven't": "have", "hadn't": "had", "doesn't": "does", "don't": "do", "didn't": "did",
    "wouldn't": "would", "couldn't": "could", "shouldn't": "should", "mustn't": "must",
}  # fmt: skip

_REGULAR_TEXT = """
accept access accelerate accompany accuse achieve acknowledge acquire act adapt add address adjust admit adopt
advance advise affect agree aim alert allege allow alter amount analyze analyse announce answer appeal appear apply
appoint approach approve argue arrange arrest arrive ask assert assess assign assist assume assure attach attack
attain attempt attend attract authorize avoid award balance ban base battle beat believe belong benefit block boast
boost borrow bound broadcast calculate call cancel capture carry cause celebrate challenge change charge check claim
clarify classify clear climb close collaborate collect combine comment commence commit compare compete complain
complete comply compose comprise concede conceal concern conclude conduct confirm connect consider consist
constitute construct consult consume contact contain continue contribute control convert convey convince cooperate
copy correct correspond count cover crash create credit criticize cross damage date deal debut decide declare
decline decrease defeat defend define deliver demand demonstrate deny depart depend deploy derive describe deserve
design destroy detail detect determine develop deviate differ direct disagree disappear disclose discover discuss
dismiss display distinguish distribute divide dominate donate double download drag drop earn ease edit elect
eliminate embrace emerge emit emphasize employ enable encounter encourage end endorse enforce engage enhance enjoy
ensure enter entitle equip escape establish estimate evaluate evolve examine exceed exclude execute exempt exercise
exist expand expect experience expire explain exploit explore expose express extend face facilitate fail favor
feature figure file fill film finance finish fire fit fix flow focus follow force forecast form formulate found
frame fuel fulfil fulfill function fund gain gather gauge generate govern grant guarantee guide handle halt happen
head help highlight hire honor host identify ignore illustrate imagine impact implement imply import impose improve
include incorporate increase incur indicate induce influence inform infringe initiate insist inspect inspire install
instruct integrate intend interact introduce invent invest investigate invite involve issue join judge jump justify
kick kill knock label lack land last launch lean leap learn levy license lift limit link list listen live load
locate lock look lose love lower maintain manage manufacture mark market match mature measure mention merge miss mix
monitor move name need negotiate nominate note notify obey object obligate obligated observe obtain occur offer open
operate oppose opt order organize outline outperform own pack partner participate pass pause perform permit persuade
pick place plan play pledge plot point portray possess post postpone praise predict prefer prepare present preserve
press prevail prevent proceed process proclaim produce prohibit project promise promote prompt notify propose
protect protest prove provide publish pull purchase pursue push qualify question raise range rank rate ratify reach
react realize recall receive recognize recommend reconsider record recover recruit reduce refer reflect refuse
regain regard register regret regulate reject relate relax release rely remain remember remind remove repair render
renew rent repeat replace reply report represent request require rescue research resemble reserve resign reside
resist resolve slump remark criticise lift raise grasp forecast confront contrast shut swap safeguard purchase gauge
grow respond rest restore restrict result resume retain retire return reveal reverse review revise reward risk roll
rule rush sack sample satisfy save scale schedule score search secure seem select separate serve settle shape share
shift ship show sign signal simulate slam slash slip slow solve sound spark specify sponsor spot stage star start
state stay stem step stop stress struggle study submit substitute succeed sue suffer suggest supply support suppose
surge surpass surprise surround survey survive suspect suspend switch tackle talk target taste tend terminate test
thank threaten tie top total touch tour trace track trade train transfer transform translate transmit travel treat
trigger trust try turn type uncover undermine unveil update upgrade urge use vary utilize unveil verify view violate
visit vote vow wait walk want warn waive warrant watch weigh welcome widen witness wonder work worry yield
"""
_REGULAR = tuple(dict.fromkeys(_REGULAR_TEXT.split()))
_IRREGULAR = """
become became become; begin began begun; bring brought brought; build built built; buy bought bought;
catch caught caught; choose chose chosen; come came come; cost cost cost; cut cut cut; deal dealt dealt;
draw drew drawn; drive drove driven; eat ate eaten; fall fell fallen; feel felt felt; fight fought fought;
find found found; fly flew flown; forget forgot forgotten; get got gotten; give gave given; go went gone;
grow grew grown; have had had; hear heard heard; hit hit hit; hold held held; keep kept kept; know knew known;
lead led led; leave left left; lend lent lent; let let let; lie lay lain; lose lost lost; make made made;
mean meant meant; meet met met; overcome overcame overcome; pay paid paid; put put put; read read read;
ride rode ridden; rise rose risen; run ran run; say said said; see saw seen; seek sought sought; sell sold sold;
send sent sent; set set set; shoot shot shot; shut shut shut; sing sang sung; sit sat sat; speak spoke spoken;
spend spent spent; split split split; spread spread spread; stand stood stood; steal stole stolen;
stick stuck stuck; strike struck struck; swear swore sworn; take took taken; teach taught taught; tell told told;
think thought thought; throw threw thrown; undergo underwent undergone; understand understood understood;
wear wore worn; win won won; withdraw withdrew withdrawn; write wrote written; arise arose arisen; bear bore borne;
beat beat beaten; bind bound bound; break broke broken; forbid forbade forbidden; hide hid hidden;
shake shook shaken; shrink shrank shrunk; sink sank sunk; sweep swept swept; undertake undertook undertaken;
show showed shown; offset offset offset; bid bid bid; quit quit quit
"""
_DOUBLED = word_set("""
cut get hit let put run set shut sit win begin forget quit split bid offset admit ban commit drop equip fit incur
occur opt permit plan refer regret ship slam slip spot star step stop submit top transfer transmit trip beg compel
control rob scan stem
""")


class VerbForm(NamedTuple):
    """A reading of a word as a verb: its base and which form it is (base, third, past, participle, gerund)."""

    base: str
    form: str


def third_person(base: str) -> str:
    """announces, carries, watches."""
    if base == "have":
        return "has"
    if base.endswith(("s", "x", "z", "ch", "sh", "o")):
        return base + "es"
    if base.endswith("y") and base[-2] not in "aeiou":
        return base[:-1] + "ies"
    return base + "s"


def gerund(base: str) -> str:
    """announcing, making, dropping, lying."""
    if base.endswith("ie"):
        return base[:-2] + "ying"
    if base.endswith("e") and not base.endswith(("ee", "oe", "ye")) and base != "be":
        return base[:-1] + "ing"
    return base + (base[-1] if base in _DOUBLED else "") + "ing"


def inflect(base: str, form: str) -> str:
    """A base in one of the forms base, third, past, participle, gerund."""
    if form == "third":
        return third_person(base)
    if form == "gerund":
        return gerund(base)
    if form in ("past", "participle"):
        past, participle = _irregular().get(base, (_past(base), _past(base)))
        return past if form == "past" else participle
    return base


def _past(base: str) -> str:
    if base in _DOUBLED:
        return base + base[-1] + "ed"
    if base.endswith("e"):
        return base + "d"
    if base.endswith("y") and base[-2] not in "aeiou":
        return base[:-1] + "ied"
    return base + "ed"


@cache
def _irregular() -> dict[str, tuple[str, str]]:
    entries = (entry.split() for entry in _IRREGULAR.split(";"))
    return {base: (past, participle) for base, past, participle in entries}


@cache
def _forms() -> dict[str, VerbForm]:
    forms: dict[str, VerbForm] = {}
    for base in _REGULAR:
        forms.setdefault(_past(base), VerbForm(base, "past"))
    for base, (past, participle) in _irregular().items():
        forms[participle] = VerbForm(base, "participle")
        forms[past] = VerbForm(base, "past")
    for base in [*_REGULAR, *_irregular()]:
        forms.setdefault(third_person(base), VerbForm(base, "third"))
        forms.setdefault(base, VerbForm(base, "base"))
        forms.setdefault(gerund(base), VerbForm(base, "gerund"))
    for base in [base for base in _REGULAR if base.endswith("ize")]:
        for form in ("past", "third", "base", "gerund"):
            forms.setdefault(inflect(base, form).replace("iz", "is"), VerbForm(base[:-3] + "ise", form))
    return forms


def verb_form(word: str) -> VerbForm | None:
    """The most useful reading of a case-folded word as a form of a known verb; None for other words.

    A form that is past and participle alike reads as past, one that is base and past alike (set, cut) as past.
    """
    return _forms().get(word)


def is_participle(word: str) -> bool:
    """Whether a word can stand after *have* or *be* (announced, taken)."""
    reading = verb_form(word)
    return (reading is not None and reading.form in ("past", "participle")) or (word.endswith("ed") and len(word) > 4)
