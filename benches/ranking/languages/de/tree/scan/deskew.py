"""Begradigung schief eingezogener Notenblätter."""
import math


def estimate_angle(kanten):
    """Schätzt den Schräglagewinkel einer Seite aus den Notenlinien.

    Genommen wird der Median aller Steigungen, denn einzelne Balken und
    Bindebögen würden einen Mittelwert verfälschen.
    """
    winkel = sorted(math.atan2(y2 - y1, x2 - x1) for x1, y1, x2, y2 in kanten)
    if not winkel:
        return 0.0
    return winkel[len(winkel) // 2]


def rotate_page(bild, winkel):
    """Dreht das Bild um seinen Mittelpunkt gerade und füllt freie Ecken weiß auf."""
    hoehe, breite = len(bild), len(bild[0])
    cx, cy = breite / 2, hoehe / 2
    c, s = math.cos(winkel), math.sin(winkel)
    out = [[255] * breite for _ in range(hoehe)]
    for y in range(hoehe):
        for x in range(breite):
            # rückwärts abbilden, damit keine Löcher entstehen
            qx = int(cx + (x - cx) * c - (y - cy) * s)
            qy = int(cy + (x - cx) * s + (y - cy) * c)
            if 0 <= qx < breite and 0 <= qy < hoehe:
                out[y][x] = bild[qy][qx]
    return out


def crop_margins(bild, schwelle=200):
    """Schneidet leere Ränder rundherum ab, damit die Noten auf kleinen
    Bildschirmen möglichst groß erscheinen."""
    zeilen = [i for i, z in enumerate(bild) if min(z) < schwelle]
    spalten = [i for i, sp in enumerate(zip(*bild)) if min(sp) < schwelle]
    if not zeilen:
        return bild
    return [z[spalten[0]:spalten[-1] + 1] for z in bild[zeilen[0]:zeilen[-1] + 1]]
