"""Kontrolle der Übersetzungsdateien vor der Veröffentlichung."""
import re

PLATZHALTER = re.compile(r"\{(\w+)\}")


def missing_keys(quelle: dict, ziel: dict) -> list[str]:
    """Findet Texte, die noch nicht übersetzt sind. Leere Zeichenketten zählen
    ebenfalls als fehlend."""
    return sorted(k for k in quelle if not ziel.get(k))


def broken_placeholders(quelle: dict, ziel: dict) -> list[str]:
    """Vergleicht die geschweiften Platzhalter in Original und Übersetzung.

    Ein vertippter Name bliebe zur Laufzeit als nackte Klammer auf dem
    Bildschirm stehen.
    """
    kaputt = []
    for key, text in quelle.items():
        soll = set(PLATZHALTER.findall(text))
        ist = set(PLATZHALTER.findall(ziel.get(key, text)))
        if soll != ist:
            kaputt.append(key)
    return kaputt


# Warnt vor Beschriftungen, die nicht mehr auf den Knopf passen. Deutsche Wörter sind im
# Schnitt ein Drittel länger als englische, erst darüber hinaus wird gemeckert.
def too_long(quelle: dict, ziel: dict) -> list[str]:
    return [k for k, t in quelle.items() if len(ziel.get(k, "")) > 1.35 * len(t) + 4]
