"""Closed word classes, written as text with one space between two words; common given names."""


def word_set(text: str) -> frozenset[str]:
    """The words of `text`."""
    return frozenset(text.split())


GIVEN_NAMES = word_set("""
aaron adam adrian alan albert alex alexander alice amanda amy ana andre andrea andrew andy angela ann anna anne
anthony antonio arthur ashley barbara ben benjamin bill bob brandon brian bruce carl carlos carol caroline catherine
charles charlie charlotte chris christian christina christine christopher claire craig dan daniel dave david dean
deborah dennis derek diana donald dorothy doug douglas dylan ed eddie edward elena elizabeth ella emily emma eric
erik evan fiona francis frank fred gary george gerald grace graham grant greg gregory hannah harold harry heather
helen henry howard hugh ian isabel ivan jack jacob jake james jamie jane janet jason jean jeff jeffrey jennifer
jeremy jerry jessica jim jimmy joan joe joel john johnny jonathan jordan jose joseph josh joshua juan judith julia
julian julie justin karen karl kate katherine kathleen katie keith kelly ken kenneth kevin kim kyle larry laura
lauren lee leo leonard lewis liam linda lisa louis louise lucas lucy luis luke marc marco marcus margaret maria
marie mario mark martha martin mary matt matthew megan melissa michael michelle miguel mike mohamed mohammed monica
nancy natalie nathan neil nicholas nick nicole nina noah olivia oliver oscar owen pamela patricia patrick paul paula
pedro peter phil philip philippe pierre rachel ralph ray raymond rebecca richard rob robert roberto robin roger ron
ronald rosa roy russell ruth ryan sally sam samantha samuel sandra sara sarah scott sean sergio sharon simon sofia
sophie stefan stephanie stephen steve steven stuart sue susan taylor ted teresa terry thomas tim timothy tina todd
tom tommy tony travis tyler vanessa victor victoria vincent virginia walter wayne will william zach zachary elon
jada britney kanye tessa
""")
"""A capitalised word after one is a person's."""
