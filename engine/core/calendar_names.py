"""Names of months and weekdays as Windows and Excel write them, in the languages of sheet dates."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class CalendarNames:
    """Names of months and weekdays in one language.

    Weeks begin with Sunday, as in number formats.
    """

    months: tuple[str, ...]
    short_months: tuple[str, ...]
    days: tuple[str, ...]
    short_days: tuple[str, ...]
    # Genitives, as in `5 stycznia` (Polish); empty if they are the plain names.
    months_of_day: tuple[str, ...] = ()


def _names(
    months: str, short_months: str, days: str, short_days: str, months_of_day: str = ""
) -> CalendarNames:
    """Build the names of a language from lists, each a string separated by spaces."""
    lists = (
        months,
        short_months,
        days,
        short_days,
        months_of_day,
    )
    return CalendarNames(*(tuple(names.split()) for names in lists))


CALENDAR_NAMES = {
    "en": _names(
        "January February March April May June July August September October November December",
        "Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec",
        "Sunday Monday Tuesday Wednesday Thursday Friday Saturday",
        "Sun Mon Tue Wed Thu Fri Sat",
    ),
    "de": _names(
        "Januar Februar März April Mai Juni Juli August September Oktober November Dezember",
        "Jan Feb Mrz Apr Mai Jun Jul Aug Sep Okt Nov Dez",
        "Sonntag Montag Dienstag Mittwoch Donnerstag Freitag Samstag",
        "So Mo Di Mi Do Fr Sa",
    ),
    "fr": _names(
        "janvier février mars avril mai juin juillet août septembre octobre novembre décembre",
        "janv. févr. mars avr. mai juin juil. août sept. oct. nov. déc.",
        "dimanche lundi mardi mercredi jeudi vendredi samedi",
        "dim. lun. mar. mer. jeu. ven. sam.",
    ),
    "es": _names(
        "enero febrero marzo abril mayo junio julio agosto septiembre octubre noviembre diciembre",
        "ene feb mar abr may jun jul ago sep oct nov dic",
        "domingo lunes martes miércoles jueves viernes sábado",
        "dom lun mar mié jue vie sáb",
    ),
    "it": _names(
        "gennaio febbraio marzo aprile maggio giugno luglio agosto settembre ottobre novembre"
        " dicembre",
        "gen feb mar apr mag giu lug ago set ott nov dic",
        "domenica lunedì martedì mercoledì giovedì venerdì sabato",
        "dom lun mar mer gio ven sab",
    ),
    "nl": _names(
        "januari februari maart april mei juni juli augustus september oktober november december",
        "jan feb mrt apr mei jun jul aug sep okt nov dec",
        "zondag maandag dinsdag woensdag donderdag vrijdag zaterdag",
        "zo ma di wo do vr za",
    ),
    "pt": _names(
        "janeiro fevereiro março abril maio junho julho agosto setembro outubro novembro dezembro",
        "jan fev mar abr mai jun jul ago set out nov dez",
        "domingo segunda-feira terça-feira quarta-feira quinta-feira sexta-feira sábado",
        "dom seg ter qua qui sex sáb",
    ),
    "pl": _names(
        "styczeń luty marzec kwiecień maj czerwiec lipiec sierpień wrzesień październik listopad"
        " grudzień",
        "sty lut mar kwi maj cze lip sie wrz paź lis gru",
        "niedziela poniedziałek wtorek środa czwartek piątek sobota",
        "niedz. pon. wt. śr. czw. pt. sob.",
        "stycznia lutego marca kwietnia maja czerwca lipca sierpnia września października listopada"
        " grudnia",
    ),
    "sv": _names(
        "januari februari mars april maj juni juli augusti september oktober november december",
        "jan feb mar apr maj jun jul aug sep okt nov dec",
        "söndag måndag tisdag onsdag torsdag fredag lördag",
        "sön mån tis ons tor fre lör",
    ),
    "da": _names(
        "januar februar marts april maj juni juli august september oktober november december",
        "jan feb mar apr maj jun jul aug sep okt nov dec",
        "søndag mandag tirsdag onsdag torsdag fredag lørdag",
        "sø ma ti on to fr lø",
    ),
    "no": _names(
        "januar februar mars april mai juni juli august september oktober november desember",
        "jan feb mar apr mai jun jul aug sep okt nov des",
        "søndag mandag tirsdag onsdag torsdag fredag lørdag",
        "søn man tir ons tor fre lør",
    ),
    "ru": _names(
        "январь февраль март апрель май июнь июль август сентябрь октябрь ноябрь декабрь",
        "янв фев мар апр май июн июл авг сен окт ноя дек",
        "воскресенье понедельник вторник среда четверг пятница суббота",
        "Вс Пн Вт Ср Чт Пт Сб",
        "января февраля марта апреля мая июня июля августа сентября октября ноября декабря",
    ),
}


def _number_months(sign: str) -> str:
    """Return names of months that are numbers with a sign: `1月 2月 … 12月`."""
    return " ".join(f"{month}{sign}" for month in range(1, 13))


_CHINESE_MONTHS = "一月 二月 三月 四月 五月 六月 七月 八月 九月 十月 十一月 十二月"
_CHINESE_DAYS = "星期日 星期一 星期二 星期三 星期四 星期五 星期六"
ASIAN_CALENDAR_NAMES = {
    "ja": _names(
        _number_months("月"),
        _number_months("月"),
        "日曜日 月曜日 火曜日 水曜日 木曜日 金曜日 土曜日",
        "日 月 火 水 木 金 土",
    ),
    "ko": _names(
        _number_months("월"),
        _number_months("월"),
        "일요일 월요일 화요일 수요일 목요일 금요일 토요일",
        "일 월 화 수 목 금 토",
    ),
    "th": _names(
        "มกราคม กุมภาพันธ์ มีนาคม เมษายน พฤษภาคม มิถุนายน กรกฎาคม สิงหาคม กันยายน ตุลาคม พฤศจิกายน ธันวาคม",
        "ม.ค. ก.พ. มี.ค. เม.ย. พ.ค. มิ.ย. ก.ค. ส.ค. ก.ย. ต.ค. พ.ย. ธ.ค.",
        "อาทิตย์ จันทร์ อังคาร พุธ พฤหัสบดี ศุกร์ เสาร์",
        "อา. จ. อ. พ. พฤ. ศ. ส.",
    ),
    "zh": _names(
        _CHINESE_MONTHS,
        _number_months("月"),
        _CHINESE_DAYS,
        "周日 周一 周二 周三 周四 周五 周六",
    ),
    "zh-tw": _names(
        _CHINESE_MONTHS,
        _number_months("月"),
        _CHINESE_DAYS,
        "週日 週一 週二 週三 週四 週五 週六",
    ),
}
"""Names in languages whose days of texts are not read by the names of months."""
NOON_NAMES = {
    "ja": "午前/午後",
    "ko": "오전/오후",
    "zh": "上午/下午",
    "zh-tw": "上午/下午",
}
"""What stands for AM and PM."""
