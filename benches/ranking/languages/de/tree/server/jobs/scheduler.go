package jobs

import (
	"hash/fnv"
	"time"
)

// Task ist eine wiederkehrende Aufgabe, etwa das nächtliche Aufräumen oder der
// Abgleich mit dem Verlagskatalog.
type Task struct {
	Name     string
	Abstand  time.Duration
	Naechste time.Time
	Run      func() error
}

// jitter verteilt die Startzeitpunkte gleicher Aufgaben über die erste Minute. Der Versatz
// hängt nur vom Namen ab, bleibt also nach einem Neustart des Servers derselbe.
func jitter(name string) time.Duration {
	h := fnv.New32a()
	h.Write([]byte(name))
	return time.Duration(h.Sum32()%60) * time.Second
}

// Reschedule berechnet den nächsten Termin einer Aufgabe. Verpasste Läufe werden nicht
// einzeln nachgeholt: Nach einem Ausfall läuft die Aufgabe nur ein Mal.
func (t *Task) Reschedule(now time.Time) {
	basis := t.Naechste
	for !basis.After(now) {
		basis = basis.Add(t.Abstand)
	}
	t.Naechste = basis.Truncate(time.Minute).Add(jitter(t.Name))
}

// inQuietHours verhindert schwere Hintergrundarbeit am Konzertabend. Zwischen 18 und 23 Uhr
// gehört die ganze Rechenleistung den Pulten auf der Bühne.
func inQuietHours(now time.Time) bool {
	return now.Hour() >= 18 && now.Hour() < 23
}
