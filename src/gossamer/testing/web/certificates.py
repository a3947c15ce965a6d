"""The simulated web's certificate authority: made at start, trusted by whoever is given its `ca.pem`.

Sites are without number, and no wildcard covers them all (`*.test` is one label short for every verifier), so a leaf is
made when its name is first asked for. All share one key: making keys is what would cost.
"""

import datetime as dt
import re
import ssl
import tempfile
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from ipaddress import ip_address
from pathlib import Path
from typing import Self

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_DAY = dt.timedelta(days=1)

#: Some 30 KB each. A site that was left out is made anew, in a millisecond.
_CONTEXTS_KEPT = 1_000

_HOST_NAME = re.compile(r"[a-z0-9_](?:[a-z0-9_-]|\.(?=[a-z0-9_])){0,200}")


class Authority:
    """Signs the leaves of one simulated web. Several server processes load the same one from its directory."""

    def __init__(self, directory: Path) -> None:
        self.certificate_file = directory / "ca.pem"
        self._key_file = directory / "ca-key.pem"
        self._leaf_key_file = directory / "leaf-key.pem"
        self._certificate = x509.load_pem_x509_certificate(self.certificate_file.read_bytes())
        self._key = _load_key(self._key_file)
        self._leaf_key = _load_key(self._leaf_key_file)

    @classmethod
    def create(cls, directory: Path) -> Self:
        """A new one, with its files written; they are worth nothing outside the simulated web."""
        directory.mkdir(parents=True, exist_ok=True)
        key, leaf_key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "Gossamer simulated web")])
        identifier = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
        today = dt.datetime.now(dt.UTC)
        certificate = (
            _builder(name, name, key, today - _DAY, today + 365 * _DAY)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(_usage(signs_certificates=True), critical=True)
            .add_extension(identifier, critical=False)
            .sign(key, hashes.SHA256())
        )
        for file, secret in (("ca-key.pem", key), ("leaf-key.pem", leaf_key)):
            (directory / file).touch(mode=0o600)
            (directory / file).write_bytes(
                secret.private_bytes(
                    serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
                )
            )
        (directory / "ca.pem").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        return cls(directory)

    def leaf(
        self,
        names: Iterable[str],
        *,
        not_before: dt.datetime | None = None,
        not_after: dt.datetime | None = None,
        self_signed: bool = False,
    ) -> bytes:
        """A certificate for host names or addresses, as PEM; valid from yesterday for a month unless said otherwise."""
        names = list(names)
        today = dt.datetime.now(dt.UTC)
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, names[0][:64])])
        issuer_key = self._leaf_key if self_signed else self._key
        certificate = (
            _builder(
                subject,
                subject if self_signed else self._certificate.subject,
                self._leaf_key,
                not_before or today - _DAY,
                not_after or today + 30 * _DAY,
            )
            .add_extension(x509.SubjectAlternativeName([_general_name(name) for name in names]), critical=False)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_usage(signs_certificates=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(self._leaf_key.public_key()), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key.public_key()), critical=False)
            .sign(issuer_key, hashes.SHA256())
        )
        return certificate.public_bytes(serialization.Encoding.PEM)

    def context(self, leaf: bytes) -> ssl.SSLContext:
        """What a server needs to show a leaf of this authority."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.set_alpn_protocols(["http/1.1"])
        # OpenSSL reads certificates from files only.
        with tempfile.NamedTemporaryFile(suffix=".pem") as file:
            file.write(leaf)
            file.flush()
            context.load_cert_chain(file.name, self._leaf_key_file)
        return context


#: What a TLS site shows instead of a good certificate; None: the handshake is never answered.
TlsBehaviour = Callable[[Authority], ssl.SSLContext | None]


class Contexts:
    """The TLS context of each name that a client may ask for, made when first asked for, the oldest forgotten."""

    def __init__(self, authority: Authority, hostile: Mapping[str, TlsBehaviour]) -> None:
        self._authority = authority
        self._hostile = hostile
        self._made: OrderedDict[str, ssl.SSLContext | None] = OrderedDict()
        self._default = authority.context(authority.leaf(["localhost", "127.0.0.1"]))

    def of(self, name: str) -> ssl.SSLContext | None:
        """None if the handshake is to be left unanswered."""
        host = name.removesuffix(".")
        if not _HOST_NAME.fullmatch(host):
            return self._default
        labels = host.split(".")
        site = ".".join(labels[-2:])
        # The wildcard covers one label below the site; what is deeper has a leaf of its own, and so has the hostile.
        key = host if len(labels) > 3 or host in self._hostile else site
        if key not in self._made:
            hostile = self._hostile.get(key)
            self._made[key] = self._good(site, host, key) if hostile is None else hostile(self._authority)
            if len(self._made) > _CONTEXTS_KEPT:
                self._made.popitem(last=False)
        return self._made[key]

    def _good(self, site: str, host: str, key: str) -> ssl.SSLContext:
        names = [site, f"*.{site}"] if key == site else [host]
        return self._authority.context(self._authority.leaf(names))


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePrivateKey,
    not_before: dt.datetime,
    not_after: dt.datetime,
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(not_before)
        .not_valid_after(not_after)
    )


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _general_name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _load_key(file: Path) -> ec.EllipticCurvePrivateKey:
    key = serialization.load_pem_private_key(file.read_bytes(), None)
    assert isinstance(key, ec.EllipticCurvePrivateKey)  # noqa: S101 (we wrote it)
    return key
