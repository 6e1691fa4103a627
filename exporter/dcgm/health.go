package dcgm

import (
	"math"
	"math/bits"
	"time"

	godcgm "github.com/NVIDIA/go-dcgm/pkg/dcgm"

	"github.com/gpuscale/gpuscale/exporter/collect"
)

const (
	// healthEvery is how often the health watches are read. Their answer takes a megabyte. It
	// has an incident of one sample until the next sample.
	healthEvery = time.Second
	// ailingEvery is how often they are read while there is an incident. A host engine logs each
	// incident with each answer, and reports an XID until it ends.
	ailingEvery = 30 * time.Second
	// peersEvery is the interval of asking for the links between GPUs.
	peersEvery = 10 * time.Second
)

// slow holds what is requested more rarely than values, with the last answers by DCGM's
// number of the GPU.
type slow struct {
	askedHealth, askedPeers time.Time

	group  *godcgm.GroupHandle // of the health watches; nil where they are off
	health map[uint32][]collect.Incident
	peers  map[uint32][]collect.Peer
}

// watchHealth enables the health watches where they are requested.
func (r *reader) watchHealth() error {
	r.slow = slow{}
	gpus := r.layout.keys(kindGPU)
	if !r.fields.asks(collect.AskHealth) || len(gpus) == 0 {
		return nil
	}
	group, _, err := r.session.group(gpus)
	if err == nil {
		err = refusal("setting health watches", godcgm.HealthSet(group, godcgm.DCGM_HEALTH_WATCH_ALL))
	}
	if err == nil {
		r.slow.group = &group
	}
	return r.complaints.tolerated("health watches", err)
}

// readSlow repeats the slow requests when they are due.
func (r *reader) readSlow() (err error) {
	s, every := &r.slow, healthEvery
	for _, incidents := range s.health {
		if len(incidents) > 0 {
			every = ailingEvery
		}
	}
	if s.group != nil && r.options.due(s.askedHealth, every) {
		s.askedHealth = r.options.now()
		s.health, err = readHealth(*s.group, r.layout.keys(kindGPU))
		if err = r.complaints.tolerated("health", err); err != nil {
			return err
		}
	}
	if r.fields.asks(collect.AskPeers) && r.options.due(s.askedPeers, peersEvery) {
		s.askedPeers = r.options.now()
		s.peers, err = readPeers()
		err = r.complaints.tolerated("peer-to-peer status", err)
	}
	return err
}

// readHealth gives the incidents of each GPU of the group, an empty list if there are none.
func readHealth(group godcgm.GroupHandle, gpus []entityKey) (map[uint32][]collect.Incident, error) {
	answer, err := godcgm.HealthCheck(group)
	if err != nil {
		return nil, refusal("reading health", err)
	}
	found := make(map[uint32][]collect.Incident, len(gpus))
	for _, gpu := range gpus {
		found[gpu.id] = []collect.Incident{}
	}
	for _, i := range answer.Incidents {
		gpu, watch := uint32(i.EntityInfo.EntityId), healthWatch(uint32(i.System))
		if i.EntityInfo.EntityGroupId == godcgm.FE_GPU && found[gpu] != nil && watch != "" {
			found[gpu] = append(found[gpu], collect.Incident{Watch: watch, Result: int(i.Health), Error: collect.HealthError(int(i.Error.Code))})
		}
	}
	return found, nil
}

// healthWatch returns the name of a watch of GPUs: its bit counts in the order of
// HealthWatches, and all bits stand for the last one. It returns "" for any other watch.
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

// readPeers gives the paths from each GPU to the others. DCGM lists all of its GPUs by their ids, from 0 on.
func readPeers() (map[uint32][]collect.Peer, error) {
	status, err := godcgm.GetNvLinkP2PStatus()
	peers := map[uint32][]collect.Peer{}
	for from, paths := range status.Gpus {
		for to, state := range paths {
			if to != from {
				peers[uint32(from)] = append(peers[uint32(from)], collect.Peer{GPU: to, Status: int(state)})
			}
		}
	}
	return peers, refusal("reading peer-to-peer status", err)
}
