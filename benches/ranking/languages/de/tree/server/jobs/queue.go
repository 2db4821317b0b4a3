package jobs

import (
	"container/heap"
	"time"
)

// Job ist ein einzelner Druckauftrag samt Dringlichkeit und Zahl der Fehlversuche.
type Job struct {
	ID       string
	Vorrang  int
	Versuche int
	Eingang  time.Time
}

// printHeap sortiert Aufträge nach Vorrang, bei Gleichstand nach Eingang. So überholt die
// vergessene Stimme fürs heutige Konzert den Stapeldruck der nächsten Spielzeit.
type printHeap []*Job

func (h printHeap) Len() int { return len(h) }
func (h printHeap) Less(i, j int) bool {
	if h[i].Vorrang != h[j].Vorrang {
		return h[i].Vorrang > h[j].Vorrang
	}
	return h[i].Eingang.Before(h[j].Eingang)
}
func (h printHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *printHeap) Push(x any)   { *h = append(*h, x.(*Job)) }
func (h *printHeap) Pop() any {
	x := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return x
}

// requeueFailed stellt einen gescheiterten Auftrag wieder hinten an. Nach dem vierten
// Fehlschlag wandert er zu den Problemfällen, die sich ein Mensch ansehen muss.
func requeueFailed(h *printHeap, job *Job, problemfaelle *[]*Job) {
	job.Versuche++
	if job.Versuche >= 4 {
		*problemfaelle = append(*problemfaelle, job)
		return
	}
	job.Eingang = time.Now()
	heap.Push(h, job)
}
