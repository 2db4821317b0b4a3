package http

import (
	"net/http"
	"strconv"
	"time"
)

// shouldRetry prüft, ob sich ein erneuter Versuch beim Verlagsserver überhaupt lohnt.
// Schreibende Aufrufe werden nur wiederholt, wenn die Gegenstelle sie sicher nicht verarbeitet hat.
func shouldRetry(method string, status int) bool {
	if status == http.StatusServiceUnavailable || status == http.StatusTooManyRequests {
		return true
	}
	return method == http.MethodGet && status >= 500
}

// retryAfter liest die Wartezeit aus der Kopfzeile der Antwort. Manche Verlage schicken
// Sekunden, andere ein Datum; Unsinn wird durch einen Vorgabewert ersetzt.
func retryAfter(h http.Header, now time.Time) time.Duration {
	v := h.Get("Retry-After")
	if sek, err := strconv.Atoi(v); err == nil && sek >= 0 {
		return time.Duration(sek) * time.Second
	}
	if t, err := http.ParseTime(v); err == nil && t.After(now) {
		return t.Sub(now)
	}
	return 5 * time.Second
}

// DoWithRetry führt eine Anfrage an den Verlag höchstens dreimal aus und gibt danach
// die letzte Antwort unverändert weiter.
func DoWithRetry(c *http.Client, req *http.Request) (resp *http.Response, err error) {
	for versuch := 0; versuch < 3; versuch++ {
		resp, err = c.Do(req)
		if err != nil || !shouldRetry(req.Method, resp.StatusCode) {
			return resp, err
		}
		time.Sleep(retryAfter(resp.Header, time.Now()))
	}
	return resp, err
}
