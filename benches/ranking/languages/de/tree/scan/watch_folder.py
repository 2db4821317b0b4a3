"""Überwachter Eingangsordner des Netzwerkscanners."""
import os
import re
import time

MUSTER = re.compile(r"(?P<werk>\d+)_(?P<stimme>[a-z]+)_(?P<seite>\d{3})\.tif$")


def is_settled(pfad, wartezeit=2.0):
    """Prüft, ob der Scanner mit dem Schreiben einer Datei fertig ist.

    Solange ihre Größe noch wächst, darf sie niemand anfassen; der Treiber sperrt
    sie leider nicht.
    """
    vorher = os.path.getsize(pfad)
    time.sleep(wartezeit)
    return vorher > 0 and os.path.getsize(pfad) == vorher


def parse_name(name):
    """Liest Werknummer, Stimme und Seitenzahl aus dem Dateinamen.

    Passt der Name nicht ins Schema, kommt None zurück."""
    m = MUSTER.match(name)
    if m is None:
        return None
    return int(m["werk"]), m["stimme"], int(m["seite"])


def missing_pages(seiten):
    """Meldet Seiten, die beim Einzug verschluckt wurden, als Liste ihrer Nummern."""
    if not seiten:
        return []
    return sorted(set(range(1, max(seiten) + 1)) - set(seiten))


class Quarantine:
    """Sammelbecken für Dateien, die sich keinem Werk zuordnen lassen. Sie werden nicht
    gelöscht, sondern beiseitegelegt, bis der Notenwart sie von Hand einsortiert."""

    def __init__(self, ordner):
        self.ordner = ordner

    def move(self, pfad):
        os.replace(pfad, os.path.join(self.ordner, os.path.basename(pfad)))
