"""The names of languages that are spoken, as openai-whisper has them."""

from typing import Annotated

from pydantic import BeforeValidator

from contract.generation import LanguageCode

_NAMES = """
af afrikaans, am amharic, ar arabic, as assamese, az azerbaijani, ba bashkir, be belarusian, bg bulgarian, bn bengali,
bo tibetan, br breton, bs bosnian, ca catalan, cs czech, cy welsh, da danish, de german, el greek, en english,
es spanish, et estonian, eu basque, fa persian, fi finnish, fo faroese, fr french, gl galician, gu gujarati, ha hausa,
haw hawaiian, he hebrew, hi hindi, hr croatian, ht haitian creole, hu hungarian, hy armenian, id indonesian,
is icelandic, it italian, ja japanese, jw javanese, ka georgian, kk kazakh, km khmer, kn kannada, ko korean, la latin,
lb luxembourgish, ln lingala, lo lao, lt lithuanian, lv latvian, mg malagasy, mi maori, mk macedonian, ml malayalam,
mn mongolian, mr marathi, ms malay, mt maltese, my myanmar, ne nepali, nl dutch, nn nynorsk, no norwegian, oc occitan,
pa punjabi, pl polish, ps pashto, pt portuguese, ro romanian, ru russian, sa sanskrit, sd sindhi, si sinhala, sk slovak,
sl slovenian, sn shona, so somali, sq albanian, sr serbian, su sundanese, sv swedish, sw swahili, ta tamil, te telugu,
tg tajik, th thai, tk turkmen, tl tagalog, tr turkish, tt tatar, uk ukrainian, ur urdu, uz uzbek, vi vietnamese,
yi yiddish, yo yoruba, yue cantonese, zh chinese
"""
NAMES = {code: name for one in _NAMES.split(",") for code, _, name in [one.strip().partition(" ")]}
"""By code."""
CODES = {name: code for code, name in NAMES.items()}


def _code_of(given: object) -> object:
    """Return the code of a language that is given by its name, or by its token; anything else as it is."""
    if not isinstance(given, str):
        return given
    name = given.removeprefix("<|").removesuffix("|>").lower()
    return CODES.get(name, name if name in NAMES else given)


SpokenLanguage = Annotated[LanguageCode, BeforeValidator(_code_of)]
"""A code, or a name."""
