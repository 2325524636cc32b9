"""What the built-in generator knows of a language: its function words, pronouns and leading connectives."""

from __future__ import annotations

from dataclasses import dataclass

from engine.queries.rules.vocabulary import word_set


@dataclass(frozen=True)
class Language:
    """Closed word classes, case-folded. An unknown language has none: its function words come from statistics.

    `vague`: words that point outside the sentence when they stand first. `personal`: words of a speaker, which make a
    sentence a poor source. `connectives`: leading words that a claim drops. `relatives`: words that open a tail.
    """

    code: str
    function_words: frozenset[str] = frozenset()
    vague: frozenset[str] = frozenset()
    personal: frozenset[str] = frozenset()
    connectives: tuple[str, ...] = ()
    relatives: tuple[str, ...] = ()


def _phrases(text: str) -> tuple[str, ...]:
    return tuple(sorted((" ".join(part.split()) for part in text.split("|")), key=len, reverse=True))


ENGLISH = Language(
    "en",
    word_set(
        """
        a an the this that these those and or nor but if then else so as than because since while when where whereas
        although though unless until whether after before during of in on at by for with without about against
        between among into through over under above below from up down out off again further once to toward towards
        upon within across along around behind beyond despite except like near onto per plus via is are was were be
        been being am has have had having do does did doing done will would shall should can could may might must
        ought cannot can't don't doesn't didn't won't wouldn't isn't aren't wasn't weren't hasn't haven't hadn't
        couldn't shouldn't it's that's there's he's she's they're we're you're i'm i've we've they've you've i'd
        i'll you'll he'd let's what's who's i me my mine myself we us our ours ourselves you your yours yourself he
        him his himself she her hers herself it its itself they them their theirs themselves one ones someone anyone
        everyone no not none nothing something anything everything all any both each few more most other others
        another some such only own same too very just also even still already yet ever never always often sometimes
        usually now here there how what which who whom whose why much many several lot lots less least well back
        away rather quite almost perhaps maybe however therefore thus hence moreover furthermore instead meanwhile
        otherwise said says say get gets got go goes going make makes made take takes took come comes came give
        gives gave given see seen know known think want need use used using new way first last next good great big
        little long old right different able early later every either neither really actually far etc i.e e.g ie eg
        mr mrs ms according including thing things people time year years day days today yesterday tomorrow herein
        hereof hereto hereby hereunder thereof therein thereto thereby aforesaid pursuant don doesn didn won isn
        aren ve re ll would've
        """
    ),
    word_set(
        """
        he she it they this that these those his her its their there here such both who which him them it's he's
        she's they're that's there's what how another others neither either one some
        """
    ),
    word_set(
        """
        i me my we us our you your i'm i've i'd i'll we're we've we'll you're you've you'll let's myself yourself
        """
    ),
    _phrases(
        """
        however|therefore|thus|hence|moreover|furthermore|in
        addition|additionally|meanwhile|instead|also|but|and|so|yet|for example|for instance|in fact|indeed|of
        course|as a result|consequently|accordingly|nevertheless|nonetheless|on the other hand|in contrast|by
        contrast|in
        particular|specifically|finally|first|firstly|second|secondly|third|thirdly|then|still|similarly|likewise|otherwise|overall|in
        other words|that said|in short|in
        general|generally|typically|usually|currently|recently|now|today|unfortunately|fortunately|interestingly|notably|importantly|clearly|obviously|perhaps|or|plus|after
        all|at the same time|in the meantime|ultimately|eventually|to be fair|to be clear|as such|to that end|even
        so|in turn|again|naturally|apparently|reportedly|basically
        """
    ),
    _phrases(
        """
        which|who|whom|whose|where|while|whereas|although|though|because|since|as well as|according
        to|including|with
        """
    ),
)
GERMAN = Language(
    "de",
    word_set(
        """
        der die das den dem des ein eine einen einem einer eines und oder aber denn sondern wenn als wie weil dass
        daß ob obwohl während bevor nachdem bis seit in im an am auf aus bei beim mit nach von vom zu zum zur für
        über unter vor hinter neben zwischen durch gegen ohne um ist sind war waren sein bin bist wird werden wurde
        wurden worden hat haben hatte hatten kann können konnte konnten muss müssen musste soll sollen sollte
        sollten darf dürfen will wollen wollte mag möchte würde würden ich du er sie es wir ihr mich mir dich dir
        ihn ihm ihnen uns euch sich mein dein seine seiner seinem seinen ihre ihrer ihrem ihren unser unsere euer
        dieser diese dieses diesem diesen jener jene jenes welcher welche welches wer was wo wann warum nicht kein
        keine keinen keinem keiner auch nur noch schon sehr mehr viel viele alle alles allen aller etwas nichts man
        so da dann hier dort nun jetzt immer nie wieder doch mal ja nein zwar also jedoch daher deshalb deswegen
        dabei damit dazu davon daran darauf sowie bzw etc usw z.b d.h u.a beziehungsweise gemäß laut je pro ab
        bereits sodass wobei
        """
    ),
    word_set(
        """
        er sie es dies diese dieser dieses das dabei damit dazu hier dort ihr sein ihre seine man beide solche
        """
    ),
    word_set(
        """
        ich mich mir mein meine wir uns unser unsere du dich dir dein euch
        """
    ),
    _phrases(
        """
        jedoch|daher|deshalb|deswegen|außerdem|zudem|ferner|darüber
        hinaus|allerdings|dennoch|trotzdem|somit|also|zum
        beispiel|beispielsweise|insbesondere|schließlich|zunächst|und|aber|oder|denn|auch|so|folglich|hingegen
        """
    ),
    _phrases(
        """
        der|die|das|welche|welcher|welches|wobei|während|obwohl|weil|da|sodass|so dass|sowie|dass|um|wenn
        """
    ),
)
FRENCH = Language(
    "fr",
    word_set(
        """
        le la les l un une des du de d et ou mais donc or ni car que qu qui quoi dont où si comme quand lorsque
        puisque parce à au aux en dans sur sous par pour avec sans vers chez entre contre depuis pendant avant après
        jusque est sont était étaient être été sera seront serait a ont avait avaient avoir eu aura auront aurait
        fait faire peut peuvent pouvait doit doivent devait je tu il elle on nous vous ils elles me te se lui leur y
        ce cet cette ces mon ma mes ton ta tes son sa ses notre nos votre vos leurs ne pas plus moins très trop peu
        beaucoup aussi encore déjà toujours jamais tout toute tous toutes aucun aucune autre autres même mêmes quel
        quelle quels quelles chaque plusieurs ainsi alors cependant toutefois ici là non oui afin lors selon dès
        celui celle ceux celles cela ceci ça c s n j m t c'est s'est n'est d'un d'une l'on qu'il qu'elle qu'un
        qu'une
        """
    ),
    word_set(
        """
        il elle ils elles ce cela ceci ça ces cette celui celle ceux celles on son sa ses leur leurs c'est y lui
        """
    ),
    word_set(
        """
        je j me moi mon ma mes nous notre nos tu te ton ta vous votre vos j'ai
        """
    ),
    _phrases(
        """
        cependant|toutefois|néanmoins|donc|ainsi|de plus|en outre|par ailleurs|en effet|par
        exemple|enfin|d'abord|ensuite|puis|mais|et|or|car|en revanche|par conséquent|en
        particulier|notamment|alors|d'autre part|aussi
        """
    ),
    _phrases(
        """
        qui|que|dont|où|lequel|laquelle|lesquels|tandis que|alors que|bien que|parce que|puisque|afin de|ainsi que
        """
    ),
)
SPANISH = Language(
    "es",
    word_set(
        """
        el la los las un una unos unas lo al del de y e o u pero sino que quien quienes cual cuales cuyo donde
        cuando como si porque aunque mientras pues a en con sin por para sobre bajo entre hasta desde hacia según
        contra durante mediante ante tras es son era eran ser sido será serán sería fue fueron está están estaba
        estar ha han había habían haber habrá hay puede pueden podía debe deben debía hacer hace hacen yo tú él ella
        ello nosotros vosotros ellos ellas usted ustedes me te se le les nos os mi mis tu tus su sus nuestro nuestra
        este esta esto estos estas ese esa eso esos esas aquel aquella no sí más menos muy mucho muchos mucha muchas
        poco pocos también tampoco ya aún todavía siempre nunca todo toda todos todas algún alguna algunos algunas
        ningún ninguna otro otra otros otras mismo misma mismos cada tan tanto así entonces aquí allí ahora luego
        además sin embargo qué cómo cuándo dónde
        """
    ),
    word_set(
        """
        él ella ello ellos ellas esto este esta estos estas ese esa eso aquel su sus lo les ambos ambas
        """
    ),
    word_set(
        """
        yo me mi mis nosotros nos nuestro nuestra tú te tu tus vosotros usted
        """
    ),
    _phrases(
        """
        sin embargo|no obstante|por lo tanto|por tanto|además|asimismo|así|así pues|en cambio|por
        ejemplo|finalmente|primero|luego|entonces|pero|y|o|en particular|en consecuencia|por otra parte|por otro
        lado|de hecho|también
        """
    ),
    _phrases(
        """
        que|quien|quienes|cual|cuyo|donde|mientras que|aunque|porque|ya que|puesto que|a fin de|así como
        """
    ),
)
_KNOWN = {language.code: language for language in (ENGLISH, GERMAN, FRENCH, SPANISH)}


def language_of(code: str) -> Language:
    """The word classes of an ISO 639-1 code (a region is ignored); an unknown code gets empty ones."""
    short = code.casefold().replace("_", "-").split("-")[0]
    return _KNOWN.get(
        {"english": "en", "german": "de", "french": "fr", "spanish": "es"}.get(short, short), Language(short)
    )
