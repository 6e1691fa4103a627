// Package collect turns a Reading into an exposition: our metric families are
// listed in all.go. It owns the Source interface, the label text of every
// series and the rule that an old value vanishes. It never calls a driver, a
// kubelet or a clock: readings, attributions and the time of a scrape are handed to it.
package collect
