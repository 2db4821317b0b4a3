package http

import (
	"net"
	"sync"
	"time"
)

// Bucket ist ein Tokeneimer: Er füllt sich gleichmäßig nach, und jede Anfrage
// schöpft einen Tropfen heraus. Kurze Lastspitzen sind so erlaubt, Dauerfeuer nicht.
type Bucket struct {
	mu       sync.Mutex
	fuellung float64
	kapaz    float64
	proSek   float64
	zuletzt  time.Time
}

// Allow entscheidet, ob eine weitere Anfrage durchgelassen wird oder der Client
// mit Statuscode 429 abgewiesen werden muss.
func (b *Bucket) Allow(now time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.fuellung += now.Sub(b.zuletzt).Seconds() * b.proSek
	if b.fuellung > b.kapaz {
		b.fuellung = b.kapaz
	}
	b.zuletzt = now
	if b.fuellung < 1 {
		return false
	}
	b.fuellung--
	return true
}

// clientKey ermittelt, wem eine Anfrage angerechnet wird. Bei IPv6 zählt das ganze
// /64-Netz als ein Teilnehmer, sonst ließe sich die Drosselung durch Adresswechsel umgehen.
func clientKey(addr string) string {
	ip := net.ParseIP(addr)
	if ip == nil || ip.To4() != nil {
		return addr
	}
	return ip.Mask(net.CIDRMask(64, 128)).String()
}
