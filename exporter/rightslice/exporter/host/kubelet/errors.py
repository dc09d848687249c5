"""Why the kubelet could not be asked, in a word for counting and a sentence for people."""

from rightslice.exporter.host.reading_error import ReadingError

ABSENT = "absent"
PERMISSION = "permission"
TIMEOUT = "timeout"
UNAVAILABLE = "unavailable"
MALFORMED = "malformed"
TOO_LARGE = "too_large"
UNSUPPORTED = "unsupported"
MISSING_PACKAGE = "missing_package"


class KubeletError(ReadingError):
    """The kubelet did not tell; `reason` is one of the words above, the text says what to do."""
