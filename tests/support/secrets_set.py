"""Secrets that were never anybody's, and texts that look like secrets and are none: 500 of each from a seed.

They are put together from parts, so that none stands in this repository.
"""

import base64
import string
from collections.abc import Callable, Iterator
from random import Random
from typing import NamedTuple

BASE62 = string.ascii_letters + string.digits
HEX = "0123456789abcdef"
URLSAFE = BASE62 + "-_"
BASE32 = string.ascii_uppercase + "234567"
WORDS = """build cache client config deploy engine filter handler index layer manager network option parser query report server session
source stream target update vector window worker""".split()


class Planted(NamedTuple):
    """A text with a secret in it."""

    text: str
    secret: str


def made_of(random: Random, alphabet: str, length: int) -> str:
    """So many characters of an alphabet."""
    return "".join(random.choices(alphabet, k=length))


def _token(prefix: str, alphabet: str, length: int) -> Callable[[Random], str]:
    return lambda random: prefix + made_of(random, alphabet, length)


def _web_token(random: Random) -> str:
    parts = (
        f'{{"alg":"HS256","typ":"J{"W"}T"}}',
        f'{{"sub":"{random.randrange(10**9)}","iat":{random.randrange(10**9)}}}',
    )
    encoded = [base64.urlsafe_b64encode(part.encode()).rstrip(b"=").decode() for part in parts]
    return ".".join([*encoded, made_of(random, URLSAFE, 43)])


def _private_key(random: Random) -> str:
    name = random.choice(("", "RSA ", "EC ", "OPENSSH "))
    lines = [made_of(random, BASE62 + "+/", 64) for _ in range(random.randrange(3, 26))]
    return "\n".join([f"-----BEGIN {name}PRIVATE " + "KEY-----", *lines, f"-----END {name}PRIVATE " + "KEY-----"])


ISSUED: tuple[Callable[[Random], str], ...] = (
    _token("AK" + "IA", BASE32, 16),
    _token("AS" + "IA", BASE32, 16),
    _token("gh" + "p_", BASE62, 36),
    _token("gh" + "s_", BASE62, 36),
    lambda random: f"github_{'pat'}_{made_of(random, BASE62, 22)}_{made_of(random, BASE62, 59)}",
    _token("gl" + "pat-", URLSAFE, 20),
    _token("sk-" + "ant-api03-", URLSAFE, 93),
    _token("sk-" + "proj-", URLSAFE, 120),
    _token("s" + "k-", BASE62, 48),
    _token("sk-" + "or-v1-", HEX, 64),
    _token("sk_" + "live_", BASE62, 24),
    lambda random: (
        f"xo{'xb'}-{random.randrange(10**11, 10**12)}-{random.randrange(10**11, 10**12)}-{made_of(random, BASE62, 24)}"
    ),
    lambda random: (
        f"hooks.sl{'ack'}.com/services/T{made_of(random, BASE32, 8)}/B{made_of(random, BASE32, 8)}/{made_of(random, BASE62, 24)}"
    ),
    lambda random: f"{random.randrange(10**8, 10**10)}:A{'A'}{made_of(random, URLSAFE, 33)}",
    _token("AI" + "za", URLSAFE, 35),
    _token("GOC" + "SPX-", URLSAFE, 28),
    _token("ya" + "29.", URLSAFE, 120),
    _web_token,
    lambda random: f"S{'G'}.{made_of(random, URLSAFE, 22)}.{made_of(random, URLSAFE, 43)}",
    _token("np" + "m_", BASE62, 36),
    _token("pypi-" + "AgEIcHlwaS5vcmc", URLSAFE, 130),
    _token("h" + "f_", BASE62, 34),
    _token("hv" + "s.", URLSAFE, 90),
    _token("dop_" + "v1_", HEX, 64),
    _token("shp" + "at_", HEX, 32),
    _token("lin_" + "api_", BASE62, 40),
    _token("gs" + "k_", BASE62, 52),
    _token("fig" + "d_", URLSAFE, 40),
)
NAMED: tuple[Callable[[Random], str], ...] = (
    _token("", BASE62, 40),
    _token("", HEX, 32),
    _token("", HEX, 64),
    _token("", BASE62 + "+/", 44),
    _token("", string.ascii_lowercase + string.digits, 40),
    _token("", URLSAFE, 32),
)
NAMES = """api_key API_KEY apiKey client_secret SECRET_KEY secretKey access_token AUTH_TOKEN auth-token STRIPE_SECRET JWT_SECRET
signingKey""".split()
ASSIGNED = (
    "{}={}",
    "{}: {}",
    'export {}="{}"',
    '"{}": "{}",',
    "{} = '{}'",
    "{}:\t{}",
    '{{"a": 1, \\"{}\\": \\"{}\\"}}',
    "-e {}={} \\",
)
FRAMES = (
    "{}",
    "the key is {}.",
    "curl -H 'X-Key: {}' https://api.dev/v1",
    '"{}"',
    "a\n+  {}\nb",
    "`{}`",
    "see https://h.dev/?k={}&x=1",
    "({})",
)


def _password(random: Random) -> Planted:
    secret = (
        random.choice(WORDS).title()
        + str(random.randrange(100))
        + random.choice("!#%^&+")
        + made_of(random, string.ascii_letters, 4)
    )
    form = random.choice(
        (
            "DB_PASSWORD={}",
            'password: "{}"',
            "password = '{}'",
            "mysql --password={} -u root",
            "PGPASSWORD={} psql",
            '"Password": "{}"',
            "passwd: {}",
        )
    )
    return Planted(form.format(secret), secret)


def _in_url(random: Random) -> Planted:
    secret = made_of(random, BASE62, random.randrange(10, 24))
    scheme = random.choice(("postgres", "mysql", "redis", "mongodb+srv", "https", "amqp"))
    return Planted(f"{scheme}://app:{secret}@db{random.randrange(9)}.internal:5432/main", secret)


def _bearer(random: Random) -> Planted:
    secret = made_of(random, BASE62, 40)
    return Planted(f"curl -H 'Authorization: Bearer {secret}' https://api.dev", secret)


def _aws(random: Random) -> Planted:
    secret = made_of(random, BASE62 + "/+", 40)
    name = random.choice(("aws_secret_access_key", "AWS_SECRET_ACCESS_KEY", "SecretAccessKey"))
    return Planted(random.choice(("{} = {}", "{}={}", '"{}": "{}"')).format(name, secret), secret)


def make_secrets(seed: int = 1, count: int = 500) -> Iterator[Planted]:
    """Texts with a secret."""
    random = Random(seed)
    for number in range(count):
        kind = number % 10
        if kind < 5:
            secret = ISSUED[(number // 10 * 5 + kind) % len(ISSUED)](random)
            yield Planted(random.choice(FRAMES).format(secret), secret)
        elif kind == 5:
            secret = _private_key(random)
            shown = random.choice(
                (
                    secret,
                    secret.replace("\n", "\\n"),
                    "\n".join(f"{at:6}→{line}" for at, line in enumerate(secret.split("\n"), 1)),
                )
            )
            yield Planted(f"cat key.pem\n{shown}\ndone", secret.split("\n")[1])
        elif kind in (6, 7):
            secret = random.choice(NAMED)(random)
            yield Planted(random.choice(ASSIGNED).format(random.choice(NAMES), secret), secret)
        else:
            yield random.choice((_password, _in_url, _bearer, _aws) if kind == 8 else (_password, _aws))(random)


def _uuid(random: Random) -> str:
    return "-".join(made_of(random, HEX, length) for length in (8, 4, 4, 4, 12))


def _integrity(random: Random) -> str:
    return f"sha512-{base64.b64encode(random.randbytes(64)).decode()}"


def _camel(random: Random) -> str:
    first, *others = random.sample(WORDS, 4)
    return first + "".join(map(str.title, others))


LOOKALIKES: tuple[Callable[[Random], str], ...] = (
    lambda random: f"commit {made_of(random, HEX, 40)}\nAuthor: A",
    lambda random: f"git show {made_of(random, HEX, 40)}:src/{random.choice(WORDS)}.py",
    lambda random: f'"integrity": "{_integrity(random)}",',
    lambda random: f"sha256:{made_of(random, HEX, 64)}",
    lambda random: f'"session_id": "{_uuid(random)}", "uuid": "{_uuid(random)}"',
    lambda random: f"toolu_{'01'}{made_of(random, BASE62, 22)}",
    lambda random: f'"id": "call_{made_of(random, BASE62, 24)}", "request_id": "req_{made_of(random, BASE62, 24)}"',
    lambda random: f"data:image/png;base64,iVBORw0KGgo{base64.b64encode(random.randbytes(150)).decode()}",
    lambda random: f"ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI{made_of(random, BASE62 + '+/', 43)} me@host",
    lambda random: (
        "-----BEGIN CERTIFICATE-----\n"
        + "\n".join(made_of(random, BASE62 + "+/", 64) for _ in range(6))
        + "\n-----END CERTIFICATE-----"
    ),
    lambda random: "AK" + "IAIOSFODNN7EXAMPLE",
    lambda random: f"{random.choice(NAMES)}=your-{random.choice(WORDS)}-key-goes-here-{random.randrange(100)}",
    lambda random: f"{random.choice(NAMES)}=${{{random.choice(WORDS).upper()}_SECRET_2}}",
    lambda random: f"{random.choice(NAMES)} = os.environ['{random.choice(WORDS).upper()}_API_KEY_V2']",
    lambda random: f"const token = await {_camel(random)}{random.randrange(9)}(request, options2);",
    lambda random: f"{random.choice(NAMES)}: {_camel(random)}",
    lambda random: (
        f'password: "{random.choice(("Enter your password", "string", "required", "••••••••", "Passwort"))}"'
    ),
    lambda random: (
        f"password={random.choice(('args.password', 'self._password', 'hashed_password,', 'user.password)'))}"
    ),
    lambda random: (
        f"password: {random.choice(('str', 'string;', 'Optional[str]', '<password>', 'null', '$DB_PASSWORD', '/run/secrets/db'))}"
    ),
    lambda random: (
        f"if (password.length < {random.randrange(6, 20)} || !password.match(/[0-9]/)) throw new Error('password2short')"
    ),
    lambda random: (
        f'"max_tokens": {random.randrange(10**4)}, "token_count": {random.randrange(10**6)}, "tokenizer": "cl100k_base"'
    ),
    lambda random: (
        f'"usage": {{"input_tokens": {random.randrange(10**6)}, "cache_creation_input_tokens": {random.randrange(10**6)}}}'
    ),
    lambda random: f'class="sk-folding-cube sk-circle{random.randrange(12)}-{random.choice(WORDS)}-fade-dot-animation"',
    lambda random: f"Authorization: Bearer <{random.choice(WORDS)}-token-{random.randrange(100)}>",
    lambda random: (
        f"https://example.com:8080/{random.choice(WORDS)}/@scope/{random.choice(WORDS)}@{random.randrange(9)}.2.1"
    ),
    lambda random: f"git clone ssh://git@github.com:22/{random.choice(WORDS)}/{random.choice(WORDS)}.git",
    lambda random: f"postgres://postgres:postgres@localhost:5432/{random.choice(WORDS)}_test",
    lambda random: f"postgresql://user:password@localhost/{random.choice(WORDS)}{random.randrange(9)}",
    lambda random: f"secretName: {'-'.join(random.sample(WORDS, 3))}-tls-2024-v{random.randrange(9)}",
    lambda random: (
        f"secret: projects/{random.randrange(10**9)}/secrets/{random.choice(WORDS)}/versions/{random.randrange(9)}"
    ),
    lambda random: (
        f"arn:aws:secretsmanager:eu-west-1:{random.randrange(10**11, 10**12)}:secret:{random.choice(WORDS)}/db-AbCdEf"
    ),
    lambda random: f'cache_key = {made_of(random, HEX, 32)}; etag: "{made_of(random, HEX, 32)}"',
    lambda random: (
        f"node_modules/.pnpm/@{random.choice(WORDS)}+{random.choice(WORDS)}@{random.randrange(9)}.0.1_{made_of(random, HEX, 32)}/x"
    ),
    lambda random: f"/nix/store/{made_of(random, '0123456789abcdfghijklmnpqrsvwxyz', 32)}-{random.choice(WORDS)}-1.2.3",
    lambda random: f"test_{'_'.join(random.sample(WORDS, 5))}_{random.randrange(100)} PASSED",
    lambda random: f'nextPageToken: "{made_of(random, BASE62, 40)}"',
    lambda random: f"public_key = {made_of(random, HEX, 64)}",
    lambda random: f"{random.choice(NAMES)} = 'xxxxxxxxxxxxxxxx{random.randrange(10**6)}xxxxxxxx'",
    lambda random: f"image: registry.dev/{random.choice(WORDS)}@sha256:{made_of(random, HEX, 64)}",
    lambda random: f"--- a/{'/'.join(random.sample(WORDS, 4))}_2024_01_15T10_30_00.sql\n+++ b/{_camel(random)}2.ts",
)


def make_lookalikes(seed: int = 1, count: int = 500) -> Iterator[str]:
    """Texts without a secret."""
    random = Random(seed)
    for number in range(count):
        yield LOOKALIKES[number % len(LOOKALIKES)](random)
