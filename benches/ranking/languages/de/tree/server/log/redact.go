package log

import (
	"regexp"
	"strings"
)

var mail = regexp.MustCompile(`[\w.+-]+@[\w-]+\.[\w.]+`)
var iban = regexp.MustCompile(`\bDE\d{2}(?: ?\d{4}){4} ?\d{2}\b`)

// Redact schwärzt personenbezogene Angaben, bevor eine Zeile ins Protokoll geschrieben
// wird. E-Mail-Adressen verschwinden ganz, von Kontonummern bleiben die letzten zwei Ziffern.
func Redact(zeile string) string {
	zeile = mail.ReplaceAllString(zeile, "<mail>")
	return iban.ReplaceAllStringFunc(zeile, func(s string) string {
		return "DE…" + s[len(s)-2:]
	})
}

// Level ordnet Meldungen nach Schwere.
type Level int

// ParseLevel übersetzt die Angabe aus der Konfiguration in eine Stufe. Unbekannte Wörter
// gelten als "info", weil ein Tippfehler den Dienst nicht am Starten hindern soll.
func ParseLevel(s string) Level {
	switch strings.ToLower(strings.TrimSpace(s)) {
	case "debug":
		return 0
	case "warn", "warnung":
		return 2
	case "error", "fehler":
		return 3
	}
	return 1
}

// sampleRepeated unterdrückt gleichlautende Meldungen: Die ersten fünf erscheinen,
// danach nur noch jede hundertste. Ein defektes Pult flutet sonst die ganze Logdatei.
func sampleRepeated(zaehler map[string]int, meldung string) bool {
	zaehler[meldung]++
	n := zaehler[meldung]
	return n <= 5 || n%100 == 0
}
