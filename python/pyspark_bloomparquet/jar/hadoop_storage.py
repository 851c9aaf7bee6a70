"""Storage options from Hadoop's configuration, so that the planner reads what Spark reads.

The jar sends the settings that it finds for the bucket or account, by their general names. This module translates them
into pyarrow's options. A setting without a counterpart is either not needed to read a footer, or named in `unused`, or
an error because the planner would read other bytes than Spark.
"""

from __future__ import annotations

import ipaddress
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from urllib.parse import quote, urlsplit

from bloomparquet.errors import PlanError

Settings = Mapping[str, str]

_S3A = "org.apache.hadoop.fs.s3a."
_SDK = "software.amazon.awssdk.auth.credentials."
_TEMPORARY, _SIMPLE = f"{_S3A}TemporaryAWSCredentialsProvider", f"{_S3A}SimpleAWSCredentialsProvider"
_ANONYMOUS = {
    f"{_S3A}AnonymousAWSCredentialsProvider", f"{_SDK}AnonymousCredentialsProvider",
    "com.amazonaws.auth.AnonymousAWSCredentials",
}  # fmt: skip
_ENVIRONMENT = {
    f"{_SDK}EnvironmentVariableCredentialsProvider", "com.amazonaws.auth.EnvironmentVariableCredentialsProvider"
}  # fmt: skip
# pyarrow looks in the same places if it gets no credentials.
_OF_MACHINE = {
    f"{_S3A}auth.IAMInstanceCredentialsProvider", f"{_S3A}auth.ProfileAWSCredentialsProvider",
    f"{_SDK}DefaultCredentialsProvider", f"{_SDK}InstanceProfileCredentialsProvider",
    f"{_SDK}ContainerCredentialsProvider", f"{_SDK}ProfileCredentialsProvider",
    f"{_SDK}WebIdentityTokenFileCredentialsProvider", "com.amazonaws.auth.DefaultAWSCredentialsProviderChain",
    "com.amazonaws.auth.InstanceProfileCredentialsProvider", "com.amazonaws.auth.WebIdentityTokenCredentialsProvider",
    "com.amazonaws.auth.EC2ContainerCredentialsProviderWrapper",
}  # fmt: skip
_CENTRAL = "s3.amazonaws.com"
_DEFAULT_REGION = "us-east-2"  # as in S3A, for an endpoint without a region in its name
_REGION = re.compile(r"(?:^|\.)(?:s3[.-])(?:dualstack\.)?([a-z]{2}[a-z-]*-\d)\.(?:vpce\.)?amazonaws\.com(?:\.cn)?$")
_SUBDOMAIN = re.compile(r"[a-z0-9][a-z0-9-]{1,61}[a-z0-9]")
_AZURE_CLOUD = "core.windows.net"
_OAUTH = "org.apache.hadoop.fs.azurebfs.oauth2."
_LOGIN = re.compile(r"https://login\.microsoftonline\.com/([^/]+)/oauth2(?:/v2\.0)?/token/?")


@dataclass(frozen=True)
class Translation:
    """Storage options; and the settings without a translation, with their values unless these are secret."""

    options: Mapping[str, str] = field(repr=False)
    unused: tuple[str, ...] = ()


def translate(root: str, settings: Settings) -> Translation:
    """The storage options that Hadoop's `settings` mean for `root`, a scheme and authority such as ``s3a://bucket``.

    Raises PlanError if the planner would not read the bytes that Spark reads.
    """
    scheme, _, authority = root.partition("://")
    build = _BUILDERS.get(scheme.lower())
    return Translation({}) if build is None or not settings else build(authority, settings)


def _s3(bucket: str, settings: Settings) -> Translation:
    def get(name: str) -> str:
        return settings.get(f"fs.s3a.{name}", "").strip()

    for name in ("encryption.algorithm", "server-side-encryption-algorithm"):
        if get(name).upper() in ("SSE-C", "CSE-KMS", "CSE-CUSTOM"):
            raise _other_bytes(f"fs.s3a.{name} = {get(name)}", "objects that are encrypted with customer keys")
    if get("accesspoint.arn"):
        raise _other_bytes("fs.s3a.accesspoint.arn", "a bucket by its access point")
    options = _s3_endpoint(bucket, get) | _s3_proxy(get)
    credentials, unused = _s3_credentials(get)
    if get("requester.pays.enabled").lower() == "true":
        unused.append("fs.s3a.requester.pays.enabled")
    signing = "signing-algorithm", "s3.signing-algorithm", "custom.signers"
    unused += [f"fs.s3a.{name}" for name in signing if get(name)]
    factory = get("s3.client.factory.impl")
    if factory not in ("", f"{_S3A}DefaultS3ClientFactory"):
        unused.append(f"fs.s3a.s3.client.factory.impl = {factory}")
    return Translation(options | credentials, tuple(unused))


def _s3_endpoint(bucket: str, get: Callable[[str], str]) -> dict[str, str]:
    region = get("endpoint.region")
    options = {"region": region} if region not in ("", "sdk", "ec2") else {}
    endpoint = get("endpoint")
    if "://" not in endpoint:
        endpoint = f"{'http' if get('connection.ssl.enabled').lower() == 'false' else 'https'}://{endpoint}"
    url = urlsplit(endpoint)
    if not url.netloc or url.netloc.endswith(_CENTRAL):
        return options  # S3A, too, then finds the bucket's own region
    if url.path.strip("/") or url.query:
        raise _other_bytes("fs.s3a.endpoint, which has a path", "an endpoint below a path")
    found = _REGION.search(url.hostname or "")
    options.setdefault("region", found.group(1) if found else _DEFAULT_REGION)
    options |= {"endpoint_override": url.netloc, "scheme": url.scheme}
    if get("path.style.access").lower() != "true" and _is_subdomain(bucket, url.scheme, url.hostname or ""):
        options["force_virtual_addressing"] = "true"
    return options


def _is_subdomain(bucket: str, scheme: str, host: str) -> bool:
    """Whether Java's AWS SDK puts the bucket's name before the host. It does not for an IP address, nor with TLS for a
    name with dots, which no certificate covers."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        labels = bucket.split(".")
        return all(map(_SUBDOMAIN.fullmatch, labels)) and (scheme == "http" or len(labels) == 1)
    return False


def _s3_proxy(get: Callable[[str], str]) -> dict[str, str]:
    host = get("proxy.host")
    if not host:
        return {}
    has_tls = get("proxy.ssl.enabled").lower() == "true"
    user = get("proxy.username")
    login = f"{quote(user, '')}:{quote(get('proxy.password'), '')}@" if user else ""
    default = "80" if get("connection.ssl.enabled").lower() == "false" else "443"
    return {"proxy_options": f"{'https' if has_tls else 'http'}://{login}{host}:{get('proxy.port') or default}"}


def _s3_credentials(get: Callable[[str], str]) -> tuple[dict[str, str], list[str]]:
    """The credentials of the first provider that has some, and the settings that pyarrow cannot follow. Without
    credentials, pyarrow looks for them in the environment and on the machine."""
    if get("delegation.token.binding"):
        return {}, ["fs.s3a.delegation.token.binding"]
    access, secret, token = get("access.key"), get("secret.key"), get("session.token")
    for provider in re.split(r"[\s,]+", get("aws.credentials.provider")):
        if provider == _TEMPORARY and access and secret and token:
            return {"access_key": access, "secret_key": secret, "session_token": token}, []
        if provider == _SIMPLE and access and secret:
            return {"access_key": access, "secret_key": secret}, []
        if provider in _ANONYMOUS:
            return {"anonymous": "true"}, []
        has_environment = "AWS_ACCESS_KEY_ID" in os.environ and "AWS_SECRET_ACCESS_KEY" in os.environ
        if provider in _OF_MACHINE or (provider in _ENVIRONMENT and has_environment):
            return {}, []
        if provider not in (_TEMPORARY, _SIMPLE, *_ENVIRONMENT):
            return {}, [f"fs.s3a.aws.credentials.provider = {provider}"]
    return {}, []


def _gcs(_: str, settings: Settings) -> Translation:
    def get(*names: str) -> str:
        return next((settings[name].strip() for name in names if settings.get(name, "").strip()), "")

    if get("fs.gs.encryption.algorithm"):
        raise _other_bytes("fs.gs.encryption.algorithm", "objects that are encrypted with customer keys")
    options: dict[str, str] = {}
    unused: list[str] = []
    url = urlsplit(get("fs.gs.storage.root.url"))
    if url.netloc and url.netloc != "storage.googleapis.com":
        options |= {"endpoint_override": url.netloc, "scheme": url.scheme}
    kind = get("fs.gs.auth.type").upper()
    keyfile = "fs.gs.auth.service.account.json.keyfile", "google.cloud.auth.service.account.json.keyfile"
    if kind == "UNAUTHENTICATED" or get("fs.gs.auth.null.enable", "google.cloud.auth.null.enable").lower() == "true":
        options["anonymous"] = "true"
    elif kind not in ("", "COMPUTE_ENGINE", "APPLICATION_DEFAULT", "SERVICE_ACCOUNT_JSON_KEYFILE"):
        unused.append(f"fs.gs.auth.type = {kind}")
    elif kind in ("", "SERVICE_ACCOUNT_JSON_KEYFILE"):
        # pyarrow takes such a file from this variable only.
        named = next((name for name in keyfile if get(name)), None)
        if named is not None and get(named) != os.environ.get("GOOGLE_APPLICATION_CREDENTIALS"):
            unused.append(named)
    if get("fs.gs.auth.impersonation.service.account"):
        options["target_service_account"] = get("fs.gs.auth.impersonation.service.account")
    if get("fs.gs.requester.pays.mode").upper() not in ("", "DISABLED"):
        unused.append("fs.gs.requester.pays.mode")
    if get("fs.gs.proxy.address"):
        unused.append("fs.gs.proxy.address")
    return Translation(options, tuple(unused))


def _azure(authority: str, settings: Settings) -> Translation:
    def get(name: str) -> str:
        return settings.get(f"fs.azure.{name}", "").strip()

    for name in ("encryption.encoded.client-provided-key", "encryption.context.provider.type"):
        if get(name):
            raise _other_bytes(f"fs.azure.{name}", "files that are encrypted with customer keys")
    options: dict[str, str] = {}
    unused: list[str] = []
    account, _, domain = authority.rpartition("@")[2].partition(".")
    suffix = domain.removeprefix("dfs.")
    if suffix != _AZURE_CLOUD and domain != suffix:
        options |= {"blob_storage_authority": f".blob.{suffix}", "dfs_storage_authority": f".dfs.{suffix}"}
    kind, client = get("account.auth.type").lower() or "sharedkey", get("account.oauth2.client.id")
    provider = get("account.oauth.provider.type")
    login = _LOGIN.fullmatch(get("account.oauth2.client.endpoint"))
    if kind == "sharedkey" and get("account.key") and not get("account.keyprovider"):
        options["account_key"] = get("account.key")
    elif kind == "sas" and get("sas.fixed.token") and not get("sas.token.provider.type"):
        options["sas_token"] = get("sas.fixed.token")
    elif kind == "oauth" and provider == f"{_OAUTH}ClientCredsTokenProvider" and login:
        secret = get("account.oauth2.client.secret")
        options |= {"tenant_id": login.group(1), "client_id": client, "client_secret": secret}
    elif kind == "oauth" and provider == f"{_OAUTH}MsiTokenProvider":
        options |= {"client_id": client} if client else {}
    elif kind != "sharedkey" or get("account.keyprovider"):
        unused.append(f"fs.azure.account.auth.type = {get('account.auth.type')} {provider}".rstrip())
    if options:
        options["account_name"] = account
    return Translation(options, tuple(unused))


def _other_bytes(setting: str, what: str) -> PlanError:
    return PlanError(f"the planner cannot read {what} ({setting} in Hadoop's configuration)")


_BUILDERS: dict[str, Callable[[str, Settings], Translation]] = {
    "s3a": _s3, "s3": _s3, "gs": _gcs, "abfs": _azure, "abfss": _azure,
}  # fmt: skip
