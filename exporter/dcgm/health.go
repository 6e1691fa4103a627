package dcgm

// #include "shim.h"
import "C"

import (
	"fmt"
	"math"
	"math/bits"
	"time"

	godcgm "github.com/NVIDIA/go-dcgm/pkg/dcgm"

	"github.com/gpuscale/gpuscale/exporter/collect"
)

const (
	// healthEvery is the interval of asking the health watches: their answer is a megabyte,
	// and an incident of one sample is in it for as long as that is the last one.
	healthEvery = time.Second
	// peersEvery is the interval of asking for the links between GPUs.
	peersEvery = 10 * time.Second
)

// slow holds what is requested more rarely than values, with the last answers by DCGM's
// number of the GPU.
type slow struct {
	askedHealth, askedPeers time.Time

	group  *godcgm.GroupHandle // of the health watches; nil where they are off
	health map[uint32]*collect.HealthReport
	peers  map[uint32][]collect.Peer
}

// watchHealth enables the health watches where they are requested.
func (r *reader) watchHealth() error {
	r.slow = slow{}
	if !r.fields.asks(collect.AskHealth) || len(r.layout.gpus) == 0 || !hasSymbol(symbolHealth) {
		return nil
	}
	group, _, err := r.session.group(r.layout.gpuKeys())
	if err == nil {
		err = callError("setting health watches", C.shim_health_on(C.uintptr_t(hostHandle), C.uintptr_t(group.GetHandle())))
	}
	if severs(err) {
		return err
	}
	r.complain("health watches", err)
	if err == nil {
		r.slow.group = &group
	}
	return nil
}

// readSlow repeats the slow requests when they are due.
func (r *reader) readSlow(now time.Time) error {
	s := &r.slow
	due := func(asked *time.Time, every time.Duration) bool {
		if age := now.Sub(*asked); age >= 0 && age < every {
			return false
		}
		*asked = now
		return true
	}
	if s.group != nil && due(&s.askedHealth, healthEvery) {
		var err error
		s.health, err = readHealth(*s.group, r.layout.gpus)
		if severs(err) {
			return err
		}
		r.complain("health", err)
	}
	if r.fields.asks(collect.AskPeers) && hasSymbol(symbolPeers) && due(&s.askedPeers, peersEvery) {
		var err error
		s.peers, err = readPeers()
		if severs(err) {
			return err
		}
		r.complain("peer-to-peer status", err)
	}
	return nil
}

// readHealth gives a report of each GPU of the group.
func readHealth(group godcgm.GroupHandle, gpus []uint32) (map[uint32]*collect.HealthReport, error) {
	list := make([]C.shim_incident, C.SHIM_MAX_ENTITIES)
	var n C.int
	if code := C.shim_health(C.uintptr_t(hostHandle), C.uintptr_t(group.GetHandle()), &list[0], &n); code != 0 {
		return nil, callError("reading health", code)
	}
	reports := make(map[uint32]*collect.HealthReport, len(gpus))
	for _, gpu := range gpus {
		reports[gpu] = &collect.HealthReport{}
	}
	for _, i := range list[:n] {
		if report, watch := reports[uint32(i.gpu)], healthWatch(uint32(i.watch)); report != nil && watch != "" {
			report.Incidents = append(report.Incidents, collect.Incident{
				Watch: watch, Result: int(i.result), Error: healthError(uint32(i.code)),
			})
		}
	}
	return reports, nil
}

// healthWatch names a watch: a bit in the order of the names, or all bits, which is the last.
// What is neither is a watch of something else than GPUs.
func healthWatch(watch uint32) string {
	last := len(collect.HealthWatches) - 1
	if watch == math.MaxUint32 {
		return collect.HealthWatches[last]
	}
	if bit := bits.TrailingZeros32(watch); bits.OnesCount32(watch) == 1 && bit < last {
		return collect.HealthWatches[bit]
	}
	return ""
}

// healthError is DCGM's name of a health error, or one with its number.
func healthError(code uint32) string {
	if code < uint32(len(healthErrors)) {
		return "DCGM_FR_" + healthErrors[code]
	}
	return fmt.Sprintf("DCGM_FR_%d", code)
}

func readPeers() (map[uint32][]collect.Peer, error) {
	list := make([]C.shim_peer, C.SHIM_MAX_PEERS)
	var n C.int
	if code := C.shim_peers(C.uintptr_t(hostHandle), &list[0], &n); code != 0 {
		return nil, callError("reading peer-to-peer status", code)
	}
	peers := map[uint32][]collect.Peer{}
	for _, p := range list[:n] {
		peers[uint32(p.from)] = append(peers[uint32(p.from)], collect.Peer{GPU: int(p.to), Status: int(p.status)})
	}
	return peers, nil
}
