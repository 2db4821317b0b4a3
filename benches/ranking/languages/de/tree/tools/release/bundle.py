"""Packt die Pult-App samt Firmware zu einem Auslieferungspaket."""
import hashlib
import zipfile
from pathlib import Path

# Feste Zeitangabe für alle Archiveinträge
EPOCHE = (2020, 1, 1, 0, 0, 0)


def write_bundle(ziel: Path, dateien: list[Path], wurzel: Path) -> None:
    """Schreibt ein reproduzierbares Archiv: gleiche Quellen, gleiche Bytes.

    Dafür werden die Einträge sortiert und alle Zeitstempel auf einen festen
    Wert gesetzt.
    """
    with zipfile.ZipFile(ziel, "w", zipfile.ZIP_DEFLATED) as z:
        for d in sorted(dateien):
            info = zipfile.ZipInfo(str(d.relative_to(wurzel)), date_time=EPOCHE)
            z.writestr(info, d.read_bytes())


def manifest(dateien: list[Path]) -> str:
    """Erstellt das Verzeichnis der Prüfsummen, das dem Paket beiliegt."""
    return "".join(
        f"{hashlib.sha256(d.read_bytes()).hexdigest()}  {d.name}\n" for d in sorted(dateien)
    )


def next_version(aktuell: str, commits: list[str]) -> str:
    """Leitet die neue Versionsnummer aus den Commit-Nachrichten ab.

    Ein Bruch der Schnittstelle erhöht die erste Stelle, eine Neuerung die
    zweite, bloße Fehlerbehebungen nur die dritte.
    """
    haupt, neben, korrektur = map(int, aktuell.split("."))
    if any(c.startswith("bruch:") for c in commits):
        return f"{haupt + 1}.0.0"
    if any(c.startswith("neu:") for c in commits):
        return f"{haupt}.{neben + 1}.0"
    return f"{haupt}.{neben}.{korrektur + 1}"
