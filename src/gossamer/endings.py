"""Endings of paths that say what is behind a link before it is asked for, by the media types that such files have."""

_ENDINGS = {
    "application/epub+zip": "epub",
    "application/gzip": "gz tgz",
    "application/java-archive": "jar",
    "application/msword": "doc",
    "application/octet-stream": "bin dmg exe iso msi",
    "application/pdf": "pdf",
    "application/vnd.android.package-archive": "apk",
    "application/vnd.ms-excel": "xls",
    "application/vnd.ms-fontobject": "eot",
    "application/vnd.ms-powerpoint": "ppt",
    "application/vnd.oasis.opendocument.spreadsheet": "ods",
    "application/vnd.oasis.opendocument.text": "odt",
    "application/vnd.openxmlformats-officedocument.presentationml.presentation": "pptx",
    "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet": "xlsx",
    "application/vnd.openxmlformats-officedocument.wordprocessingml.document": "docx",
    "application/x-7z-compressed": "7z",
    "application/x-bzip2": "bz2",
    "application/x-rar-compressed": "rar",
    "application/x-rpm": "rpm",
    "application/x-shockwave-flash": "swf",
    "application/x-tar": "tar",
    "application/x-xz": "xz",
    "application/zip": "zip",
    "audio/flac": "flac",
    "audio/mp4": "m4a",
    "audio/mpeg": "mp3",
    "audio/ogg": "ogg",
    "audio/wav": "wav",
    "audio/x-ms-wma": "wma",
    "font/otf": "otf",
    "font/ttf": "ttf",
    "font/woff": "woff",
    "font/woff2": "woff2",
    "image/bmp": "bmp",
    "image/gif": "gif",
    "image/jpeg": "jpeg jpg",
    "image/png": "png",
    "image/svg+xml": "svg",
    "image/tiff": "tif tiff",
    "image/vnd.microsoft.icon": "ico",
    "image/webp": "webp",
    "text/css": "css",
    "text/javascript": "js",
    "video/mp4": "m4v mp4",
    "video/mpeg": "mpeg mpg",
    "video/quicktime": "mov",
    "video/webm": "webm",
    "video/x-matroska": "mkv",
    "video/x-ms-wmv": "wmv",
    "video/x-msvideo": "avi",
}


def endings_to_skip(media_types: str) -> str:
    """Those of files that a crawl with these `media_types` would decline, with spaces between them."""
    wanted = set(media_types.lower().split())
    skipped = [
        endings
        for media_type, endings in _ENDINGS.items()
        if not wanted & {media_type, f"{media_type.partition('/')[0]}/*", "*/*"}
    ]
    return " ".join(sorted(" ".join(skipped).split()))
