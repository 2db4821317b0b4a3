"""Hochladen der Scans in Häppchen."""
import hashlib
import time

STUECK = 1 << 20


def chunks(datei, ab=0):
    """Liefert die Datei in Stücken zu einem Megabyte, beginnend bei der angegebenen Position."""
    datei.seek(ab)
    while True:
        block = datei.read(STUECK)
        if not block:
            return
        yield block


def resume_offset(server, upload_id):
    """Fragt den Server, bis zu welchem Byte ein unterbrochener Upload schon angekommen ist.

    So muss die große Partitur nach einer Netzstörung nicht noch einmal von vorn
    übertragen werden.
    """
    antwort = server.head(upload_id)
    return int(antwort.get("Upload-Offset", 0))


def send_with_retry(server, upload_id, block, versuche=5):
    """Verschickt einen Block und versucht es bei Zeitüberschreitung mehrmals.

    Die Pausen wachsen linear. Nach dem letzten vergeblichen Anlauf wird die
    Ausnahme an den Aufrufer durchgereicht.
    """
    for n in range(1, versuche + 1):
        try:
            return server.patch(upload_id, block, hashlib.sha1(block).hexdigest())
        except TimeoutError:
            if n == versuche:
                raise
            time.sleep(n)
