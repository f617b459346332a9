"""Finds secrets in text and puts a mask in their place that says what stood there, before the text is cut, indexed or shown. Pure.

Most texts hold none, and say so soon: what machines make has letters and digits in it that nobody can pronounce, and a password follows its
name. Only there patterns are tried. All of them are linear.

`[masked:githubtoken]` is two words to the full-text index, the second of which nobody types who means something else.
"""

import re
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, Literal

import msgspec

Secrets = Literal["mask", "drop", "keep"]
KEY_LINE: Final = 40  # characters at least
KEY_BYTES: Final = 1 << 14  # that a private key may have
LEAST: Final = 16  # letters and digits of a value that a machine has made
SHORT: Final = LEAST - 2  # with what may stand behind it, "=="
LEAST_DIFFERENT: Final = 8  # characters
CHANGES: Final = 0.25, 0.42  # of letters and digits that have another kind of neighbour; where there is but one digit
RULES: Final = 3  # raised when another version of sesame would mask a text otherwise

ALNUM: Final = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_SEEN: Final = b"\t\n" + bytes(range(0x20, 0x7F))
_UNSEEN: Final = b"?"
_WIDE: Final = ALNUM + b"_+/.~-"
# Letters and digits but small vowels are `x`: of what machines make in one run in a thousand lacks six of these in a row, and words
# hardly ever have them. Whatever else may stand in what is made is `v`.
_CLASSES: Final = bytes(
    (
        b"x"
        if code in ALNUM + b"_" and code not in b"aeiou"
        else b"v"
        if code in _WIDE
        else b" "
        if code in _SEEN
        else _UNSEEN
    )[0]
    for code in range(256)
)
DENSE: Final = 13  # of twenty characters
_HARD: Final = b"x" * 6
_SIGNS: Final = b":=> \t\"'`]\\"
_QUOTES: Final = b" \t\"'`\\"
_LEAD: Final = 128  # so far before these the beginning is looked for
_BEFORE: Final = 12  # what is issued may begin so far before a region: the number of a bot
_LETTERS: Final = b"AKIA", b"ASIA", b"glpat-", b"hf_"  # how those begin that may have no digit
_SHOUT: Final = b"PASSW"
_NO_DIGITS: Final = ALNUM[10:] + b"_+-"
_REST: Final = re.compile(rb"[A-Za-z0-9_+/.~-]*={0,2}")

# What begins like nothing else: who issued it, and what it looks like. Lengths are lower bounds, so that what was cut is found as well.
ISSUED: Final[Mapping[str, str]] = {
    "awsaccesskey": r"A(?:KIA|SIA|BIA|CCA)[A-Z2-7]{16}(?![A-Za-z0-9])",
    "githubtoken": r"gh[pousr]_[A-Za-z0-9]{20,}|github_pat_[A-Za-z0-9_]{20,}",
    "gitlabtoken": r"gl(?:pat|dt|rt|rtr|ptt|oas|ft|soat|cbt|imt|agent|ffct)-[A-Za-z0-9_.-]{20,}",
    "anthropickey": r"sk-ant-[a-z]+[0-9]*-[A-Za-z0-9_-]{20,}",
    "openrouterkey": r"sk-or-v1-[0-9a-f]{20,}",
    "openaikey": r"sk-(?:proj|svcacct|admin|None)-[A-Za-z0-9_-]{20,}|sk-[A-Za-z0-9]{20,}",
    "stripekey": r"[sr]k_(?:live|test)_[A-Za-z0-9+/]{16,}|whsec_[A-Za-z0-9+/]{16,}",
    "slacktoken": r"xox[abceoprs](?:\.xox[a-z])?-[A-Za-z0-9-]{16,}|xapp-[0-9]-[A-Za-z0-9-]{16,}",
    "slackwebhook": r"hooks\.slack\.com/(?:services|workflows|triggers)/[A-Za-z0-9/_-]{20,}",
    "discordwebhook": r"discord(?:app)?\.com/api/webhooks/[0-9]{15,}/[A-Za-z0-9_-]{20,}",
    "discordtoken": r"[MNO][A-Za-z0-9_-]{23,27}\.[A-Za-z0-9_-]{6}\.[A-Za-z0-9_-]{27,}",
    "telegramtoken": r"[0-9]{8,10}:AA[A-Za-z0-9_-]{30,}",
    "googlekey": r"AIza[A-Za-z0-9_-]{30,}|GOCSPX-[A-Za-z0-9_-]{20,}",
    "googletoken": r"ya29\.[A-Za-z0-9_.-]{20,}|1//0[A-Za-z0-9_-]{30,}",
    "jsonwebtoken": r"ey[JK][A-Za-z0-9_-]{10,1024}\.[A-Za-z0-9_-]{10,}(?:\.[A-Za-z0-9_-]*){0,4}",
    "sendgridkey": r"SG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,}",
    "npmtoken": r"npm_[A-Za-z0-9]{30,}",
    "pypitoken": r"pypi-[A-Za-z0-9_-]{40,}",
    "huggingfacetoken": r"hf_[A-Za-z0-9]{30,}|api_org_[A-Za-z0-9]{30,}",
    "vaulttoken": r"hv[sbr]\.[A-Za-z0-9_-]{20,}",
    "agekey": r"AGE-SECRET-KEY-1[0-9A-Z]{40,}",
    "apitoken": (
        r"dop_v1_[0-9a-f]{40,}|do[or]_v1_[0-9a-f]{40,}|shp(?:at|ca|pa|ss)_[0-9a-fA-F]{32}|sq0(?:atp|csp)-[A-Za-z0-9_-]{20,}"
        r"|dapi[0-9a-f]{32}|dp\.(?:pt|st|sa|ct)\.[A-Za-z0-9_.-]{20,}|lin_(?:api|oauth)_[A-Za-z0-9]{32,}|ntn_[A-Za-z0-9]{30,}"
        r"|PMAK-[0-9a-f]{20,}-[0-9a-f]{20,}|pul-[0-9a-f]{40}|gl(?:c|sa)_[A-Za-z0-9_+/=]{30,}|sntry[su]_[A-Za-z0-9_+/=]{30,}"
        r"|sb[ps]_[0-9a-f]{40}|nfp_[A-Za-z0-9]{30,}|fm[12][ar]?_[A-Za-z0-9_+/=]{30,}|gsk_[A-Za-z0-9]{30,}|xai-[A-Za-z0-9]{30,}"
        r"|pplx-[A-Za-z0-9]{30,}|r8_[A-Za-z0-9]{30,}|figd_[A-Za-z0-9_-]{30,}|NRAK-[A-Z0-9]{20,}|pscale_(?:tkn|pw|oauth)_[A-Za-z0-9_.-]{30,}"
        r"|ATATT3[A-Za-z0-9_=-]{30,}|ATBB[A-Za-z0-9]{28,}|rubygems_[0-9a-f]{40,}|key-[0-9a-f]{32}(?![A-Za-z0-9])|tskey-[a-z]+-[A-Za-z0-9-]{20,}"
        r"|dckr_(?:pat|oat)_[A-Za-z0-9_-]{20,}|EAA[A-Za-z0-9]{60,}|SK[0-9a-f]{32}(?![A-Za-z0-9])|cfut_[A-Za-z0-9]{30,}"
    ),
}  # fmt: skip
_KINDS: Final = tuple((kind, re.compile(form.encode())) for kind, form in ISSUED.items())
# Without groups, so that of each alternative only the first letter is looked at. A letter behind a backslash is a line's end in JSON.
_ISSUED: Final = re.compile("[^A-Za-z0-9](?:(?<=\\\\)[nrt])?({})".format("|".join(ISSUED.values())).encode())

# What is called a secret: a name, a sign, and a value that a machine has made, which stands behind them.
_SUFFIX: Final = (
    r"(?:[_.-]?(?:key|base|value|val|token|secret|string|salt|header|env|prod|production|dev|test|staging|live|main|primary|secondary|old|new"
    r"|hex|base64|b64|[0-9]{1,3})){0,3}"
)
_SIGN: Final = r"""\\{0,3}["'`]?\]?[ \t]{0,4}(?::=|=>|==?|:)[ \t]{0,4}"""
_CALLED: Final = re.compile(
    rf"""(?:secret|(?<!by)(?<!com)(?<!res)pass|(?:\A|[_.-])(?:pwd|auth)|(?<!page)(?<!page[_-])(?<!ation)(?<!ation[_-])token|passphrase|credential|authorization
    |(?:api|app|access|private|auth|signing|encryption|account|master|client|service|storage|license|admin|session|shared|deploy|webhook|hmac
        |jwt|cookie)[_.-]?key)s?{_SUFFIX}\Z""".replace("\n", "")
    .replace(" ", "")
    .encode()
)
_WORDS: Final = (
    b"secret",
    b"token",
    b"key",
    b"pass",
    b"pwd",
    b"credential",
    b"auth",
)  # one of which is in each such name
_CALLED_BYTES: Final = 96
_ENDS: Final = frozenset((b":", b"=", b">", b"r", b"c", b"R", b"C"))  # of a sign, and of these
_SCHEMES: Final = (b"bearer", b"basic")
_USER: Final = re.compile(rb"""[ \t]-(?:u|-(?:proxy-)?user)[ =]?\\{0,2}["']?[\w.@+-]+:\Z""")  # as curl is told
_PLACEHOLDER: Final = re.compile(
    rb"example|placeholder|your[_-]|change[_-]?(?:me|it)|dummy|redacted|insert|replace|fake|sample|xxxx|\*\*\*|\.\.\.|todo|12345678|abcdefg"
    rb"|my[_-]?(?:secret|token|pass|key)|[$<{]|%[sd(]|process\.env|environ",
    re.IGNORECASE,
)

# What is called a password: people make them up, so that they are short.
_NAMED: Final = re.compile(
    rf"""passw(?:or)?ds?{_SUFFIX}(?:{_SIGN}|(?<=-password)[ ]|(?P<said>(?<=password)[ ]))"""
    r"""(?:[bru]?\\{0,3}(?P<quote>["'`]))?(?P<value>(?(quote)[^"'`\r\n\\]{6,256}|(?:[^\s"'`,;<>(){}\[\]\\|&]|&(?![\w.-]*=|amp;|[\s&]|\Z)){6,256}))""".encode(),
    re.IGNORECASE,
)
_DEFAULTS: Final = frozenset(
    b"password passwd pass passw0rd secret admin root user username test guest postgres mysql none null undefined required string"
    b" true false token".split()
)
_DIGIT: Final = re.compile(rb"[0-9]")
_ALIKE: Final = re.compile(rb"[a-z]+|[A-Z]+|[0-9]+")  # letters of one case, or digits
_ARGUMENT: Final = re.compile(rb"[A-Za-z_][\w.]*[,)]")
# A path, a name with dots, one with humps and digits (`findX509Error2`), an address.
_PATH: Final = re.compile(
    rb"[.~]{0,2}/[\w.-]*/|[A-Za-z_]\w*(?:(?:\.|->|::)\w+)+\Z|[A-Za-z]?[a-z]{2,}(?:[A-Z0-9]{1,6}[a-z]{3,})+[0-9]?\Z|[^/]*://"
)
_LETTER: Final = re.compile(rb"[A-Za-z]")
_SYMBOL: Final = re.compile(rb"[!@#%^&~+=]")
_SHOUTED: Final = re.compile(rb"PASSW(?:OR)?D[A-Z0-9_]*=[A-Za-z]{8,}\Z")
_URL_BYTES: Final = 320
_URL: Final = re.compile(rb"""://(?P<user>[^\s/:@"'`<>]{0,64}):(?P<value>[^\s/@"'`<>]{3,256})@""")
_PRIVATE_KEY: Final = re.compile(
    rb"(?P<begin>-----BEGIN (?:[A-Z0-9]+ ){0,3}PRIVATE KEY(?: BLOCK)?-----)(?:(?:\\+[nr]|\s)*[A-Za-z0-9+/=]{16,})*"
)
_KEY_END: Final = re.compile(rb"-----END (?:[A-Z0-9]+ ){0,3}PRIVATE KEY(?: BLOCK)?-----")
_KEY_BODY: Final = re.compile(rb"[A-Za-z0-9+/]{40}")

Span = tuple[int, int, str]  # where it begins and ends, in bytes, and what it is


def mask(text: str) -> str:
    """The text with a mask for each secret; the text itself if there is none."""
    data = text.encode("utf-8", "surrogatepass")
    spans = find_secrets(data, classify(data))
    return put_masks(data, spans).decode("utf-8", "surrogatepass") if spans else text


def mask_state(state: bytes) -> bytes:
    """A source's state, as it is stored, with masks: some lines are held until later ones tell what they are."""
    return msgspec.json.encode(_mask_value(msgspec.json.decode(state)))


def _mask_value(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _mask_value(item) for name, item in value.items()}
    if isinstance(value, list):
        return list(map(_mask_value, value))
    if not isinstance(value, str):
        return value
    if (masked := mask(value)) != value:
        return masked
    try:
        line = b64decode(value, validate=True).decode()  # how bytes stand in JSON
    except ValueError:
        return value
    return value if mask(line) == line else b64encode(mask(line).encode()).decode()


def form_of(secrets: Secrets) -> str:
    """What texts are in an index of this setting: what is indexed in another form is indexed anew."""
    return secrets if secrets == "keep" else f"{secrets} {RULES}"


def choose_mask(secrets: Secrets) -> Callable[[str], str]:
    """What is done with short texts, which are not kept without masks."""
    return str if secrets == "keep" else mask


def find_cut(text: str, end: int) -> int:
    """Where to cut a text that is longer than this: before a secret that would be cut in two."""
    first = max(0, end - KEY_BYTES)
    near, place = (text[first:last].encode("utf-8", "surrogatepass") for last in (end + KEY_BYTES, end))
    for begin, last, _ in find_secrets(near, classify(near)):
        if begin < len(place) < last:
            return first + len(near[:begin].decode("utf-8", "surrogatepass"))
    return end


def classify(data: bytes) -> bytes:
    """What each byte is: a letter or digit but a small vowel, unseen or not known to be seen, or anything else."""
    return data.translate(_CLASSES)


def may_be_unseen(classes: bytes) -> bool:
    """Whether there may be something to clean."""
    return _UNSEEN in classes


def find_secrets(data: bytes, classes: bytes) -> list[Span]:
    """The secrets in a text."""
    spans: list[Span] = []
    has_names, has_keys = b"assw" in data, False
    if b"@" in data:
        spans += _find_in_urls(data)
    if (first := classes.find(_HARD)) >= 0:
        for begin, end in _find_regions(data, classes, first):
            has_keys = has_keys or end - begin >= KEY_LINE
            has_names = has_names or _SHOUT in data[begin:end]
            first = begin - _BEFORE
            if first <= 0 or _ISSUED.search(data, first, end):
                spans += _find_issued(data, max(0, first), end)
            if _is_called(data, begin) and _is_random(data[begin:end]):
                spans.append((begin, end, "secretvalue"))
    if has_keys:
        spans += _find_private_keys(data)
    if has_names:
        spans += _find_passwords(data)
    return spans


def put_masks(data: bytes, spans: list[Span]) -> bytes:
    """The text with masks; of several secrets in one place the first one counts."""
    parts, at = list[bytes](), 0
    for begin, end, kind in sorted(spans, key=lambda span: span[:1]):
        if begin >= at:
            parts += data[at:begin], b"[masked:%b]" % kind.encode()
        at = max(at, end)
    return b"".join((*parts, data[at:]))


def _find_regions(data: bytes, classes: bytes, at: int) -> Iterator[tuple[int, int]]:
    """Where a machine may have made something: what stands around letters and digits that nobody can pronounce, if it is long enough."""
    done = 0
    while at >= 0:
        # Most are too short: the hash of a commit, a number.
        begin = classes.rfind(b" ", at - LEAST if at > LEAST else 0, at)
        end = classes.find(b" ", at, at + LEAST)
        if begin >= 0 and 0 <= end <= begin + SHORT and data.find(_SHOUT, begin, end) < 0:
            at = classes.find(_HARD, end)
            continue
        # Or words, which have vowels nearby. Passwords are found by their name.
        if classes.count(b"x", at - 4 if at > 4 else 0, at + 16) < DENSE and data[at : at + 5] != _SHOUT:
            at = classes.find(_HARD, at + 6)
            continue
        lead = at - _LEAD if at - _LEAD > done else done
        begin = lead + len(data[lead:at].rstrip(_WIDE))
        rest = _REST.match(data, at)
        assert rest is not None
        done = rest.end()
        if done - begin >= LEAST:
            region = data[begin:done]
            if region.strip(_NO_DIGITS) or region.startswith(_LETTERS) or _SHOUT in region:
                yield begin, done
        elif _SHOUT in data[begin:done]:
            yield begin, done
        at = classes.find(_HARD, done)


def _find_issued(data: bytes, first: int, end: int) -> Iterator[Span]:
    # Each begins behind something else.
    region, shift = (data[first:end], first) if first else (b"\n" + data[:end], -1)
    for found in _ISSUED.finditer(region):
        token = found[1]
        if len(set(token)) >= LEAST_DIFFERENT and not _PLACEHOLDER.search(token):
            kind = next(kind for kind, form in _KINDS if form.fullmatch(token))
            yield shift + found.start(1), shift + found.end(1), kind


def _is_called(data: bytes, begin: int) -> bool:
    """Whether what stands before a value calls it a secret: `api_key = "`, `Bearer `."""
    if data[begin - 8 if begin > 8 else 0 : begin].rstrip(_QUOTES)[-1:] not in _ENDS:
        return False
    before = data[max(0, begin - _CALLED_BYTES) : begin].rstrip(_QUOTES).lower()
    if before.endswith(_SCHEMES):
        return True
    name = before.rstrip(_SIGNS)
    name = name[len(name.rstrip(_WIDE)) :]
    if any(word in name for word in _WORDS) and _CALLED.search(name) is not None:
        return True
    return before.endswith(b":") and _USER.search(before) is not None


def _is_random(value: bytes) -> bool:
    """Whether a value was made by a machine: case and digits change more often than in words, numbers and dates."""
    if _PLACEHOLDER.search(value) or _PATH.match(value):
        return False
    pieces = _ALIKE.findall(value)
    length = sum(map(len, pieces))
    digits = sum(len(piece) for piece in pieces if piece.isdigit())
    if length < LEAST or length * 2 < len(value) or len(set(value)) < LEAST_DIFFERENT:
        return False
    if not digits or length - digits < length / 6:
        return False
    return len(pieces) >= length * (CHANGES[0] if digits > 1 else CHANGES[1])


def _find_passwords(data: bytes) -> Iterator[Span]:
    """What is called a password and looks like one."""
    low = data.lower()
    at = low.find(b"passw")
    while at >= 0:
        found, following = _NAMED.match(data, at), low.find(b"passw", at + 5)
        is_alone = found is not None and not 0 <= following < found.end("value")  # `password: password = …` is code
        if found is not None and is_alone and (_is_password(data, found) or _is_random(found["value"])):
            yield *found.span("value"), "passwordvalue"
        at = following


def _is_password(data: bytes, found: re.Match[bytes]) -> bool:
    """Whether a value is one that a person has made up, as far as can be seen: no code, and not only a word."""
    value, end = found["value"], found.end("value")
    if found["said"] is not None:  # .netrc, or people about passwords
        return False
    if b" " in value or value[:1] in b"[/~." or value.lower() in _DEFAULTS or not _LETTER.search(value):
        return False
    if _PLACEHOLDER.search(value) or _PATH.match(value):
        return False
    if found["quote"] is None and (
        _ARGUMENT.match(data, found.start("value"), end + 1) or data[end : end + 1] in (b"(", b"[", b"{")
    ):
        return False
    if _DIGIT.search(value) or _SYMBOL.search(value, 1, len(value) - 1):
        return True
    return _SHOUTED.match(data, found.start(), end) is not None  # DB_PASSWORD=opensesame


def _find_in_urls(data: bytes) -> Iterator[Span]:
    """Passwords in URLs."""
    at = data.find(b"@")
    while at >= 0:
        begin = data.rfind(b"://", max(0, at - _URL_BYTES), at)
        if (
            begin >= 0
            and (found := _URL.match(data, begin)) is not None
            and _is_url_password(found["value"], found["user"])
        ):
            yield *found.span("value"), "urlpassword"
        at = data.find(b"@", at + 1)


def _is_url_password(value: bytes, user: bytes) -> bool:
    return not (value.lower() in _DEFAULTS or value == user or value[:1] in b"[*" or _PLACEHOLDER.search(value))


def _find_private_keys(data: bytes) -> Iterator[Span]:
    """Private keys with all their lines, numbered or quoted as they may be; of one that is cut short what is certain."""
    at = 0
    while (found := _PRIVATE_KEY.search(data, at)) is not None:
        begin, at = found.span()
        if (closed := _KEY_END.search(data, found.end("begin"), found.end("begin") + KEY_BYTES)) is not None:
            at = max(at, closed.end())
        if _KEY_BODY.search(data, begin, at):
            yield begin, at, "privatekey"
