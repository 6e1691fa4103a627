package dcgm

// #include "shim.h"
import "C"

import (
	"fmt"
	"math"
	"math/bits"
	"strings"
	"time"

	godcgm "github.com/NVIDIA/go-dcgm/pkg/dcgm"

	"github.com/gpuscale/gpuscale/exporter/collect"
)

const (
	// healthEvery is the interval of asking the health watches: their answer takes a megabyte,
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
	s := &r.slow
	if s.group != nil && r.options.due(s.askedHealth, healthEvery) {
		s.askedHealth = r.options.now()
		s.health, err = readHealth(*s.group, r.layout.keys(kindGPU))
		if err = r.complaints.tolerated("health", err); err != nil {
			return err
		}
	}
	if r.fields.asks(collect.AskPeers) && r.options.due(s.askedPeers, peersEvery) {
		s.askedPeers = r.options.now()
		s.peers, err = readPeers()
	}
	return r.complaints.tolerated("peer-to-peer status", err)
}

// readHealth gives a report of each GPU of the group.
func readHealth(group godcgm.GroupHandle, gpus []entityKey) (map[uint32]*collect.HealthReport, error) {
	answer, err := godcgm.HealthCheck(group)
	if err != nil {
		return nil, refusal("reading health", err)
	}
	reports := make(map[uint32]*collect.HealthReport, len(gpus))
	for _, gpu := range gpus {
		reports[gpu.id] = &collect.HealthReport{}
	}
	for _, i := range answer.Incidents {
		report, watch := reports[uint32(i.EntityInfo.EntityId)], healthWatch(uint32(i.System))
		if i.EntityInfo.EntityGroupId == godcgm.FE_GPU && report != nil && watch != "" {
			report.Incidents = append(report.Incidents, collect.Incident{
				Watch: watch, Result: int(i.Health), Error: healthError(uint32(i.Error.Code)),
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
	return fmt.Sprintf("DCGM_FR_UNKNOWN(%d)", code) // as dcgm-exporter has it
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

// healthErrors are the names of DCGM's health errors by number, as dcgm_errors.h has
// them, without their prefix DCGM_FR_: five a line, from 0 on.
var healthErrors = strings.Fields(`
OK UNKNOWN UNRECOGNIZED PCI_REPLAY_RATE VOLATILE_DBE_DETECTED
VOLATILE_SBE_DETECTED PENDING_PAGE_RETIREMENTS RETIRED_PAGES_LIMIT RETIRED_PAGES_DBE_LIMIT CORRUPT_INFOROM
CLOCKS_EVENT_THERMAL POWER_UNREADABLE CLOCKS_EVENT_POWER NVLINK_ERROR_THRESHOLD NVLINK_DOWN
NVSWITCH_FATAL_ERROR NVSWITCH_NON_FATAL_ERROR NVSWITCH_DOWN NO_ACCESS_TO_FILE NVML_API
DEVICE_COUNT_MISMATCH BAD_PARAMETER CANNOT_OPEN_LIB DENYLISTED_DRIVER NVML_LIB_BAD
GRAPHICS_PROCESSES HOSTENGINE_CONN FIELD_QUERY BAD_CUDA_ENV PERSISTENCE_MODE
LOW_BANDWIDTH HIGH_LATENCY CANNOT_GET_FIELD_TAG FIELD_VIOLATION FIELD_THRESHOLD
FIELD_VIOLATION_DBL FIELD_THRESHOLD_DBL UNSUPPORTED_FIELD_TYPE FIELD_THRESHOLD_TS FIELD_THRESHOLD_TS_DBL
THERMAL_VIOLATIONS THERMAL_VIOLATIONS_TS TEMP_VIOLATION CLOCKS_EVENT_VIOLATION INTERNAL
PCIE_GENERATION PCIE_WIDTH ABORTED TEST_DISABLED CANNOT_GET_STAT
STRESS_LEVEL CUDA_API FAULTY_MEMORY CANNOT_SET_WATCHES CUDA_UNBOUND
ECC_DISABLED MEMORY_ALLOC CUDA_DBE MEMORY_MISMATCH CUDA_DEVICE
ECC_UNSUPPORTED ECC_PENDING MEMORY_BANDWIDTH TARGET_POWER API_FAIL
API_FAIL_GPU CUDA_CONTEXT DCGM_API CONCURRENT_GPUS TOO_MANY_ERRORS
NVLINK_CRC_ERROR_THRESHOLD NVLINK_ERROR_CRITICAL ENFORCED_POWER_LIMIT MEMORY_ALLOC_HOST GPU_OP_MODE
NO_MEMORY_CLOCKS NO_GRAPHICS_CLOCKS HAD_TO_RESTORE_STATE L1TAG_UNSUPPORTED L1TAG_MISCOMPARE
ROW_REMAP_FAILURE UNCONTAINED_ERROR EMPTY_GPU_LIST DBE_PENDING_PAGE_RETIREMENTS UNCORRECTABLE_ROW_REMAP
PENDING_ROW_REMAP BROKEN_P2P_MEMORY_DEVICE BROKEN_P2P_WRITER_DEVICE NVSWITCH_NVLINK_DOWN EUD_BINARY_PERMISSIONS
EUD_NON_ROOT_USER EUD_SPAWN_FAILURE EUD_TIMEOUT EUD_ZOMBIE EUD_NON_ZERO_EXIT_CODE
EUD_TEST_FAILED FILE_CREATE_PERMISSIONS PAUSE_RESUME_FAILED PCIE_H_REPLAY_VIOLATION GPU_EXPECTED_NVLINKS_UP
NVSWITCH_EXPECTED_NVLINKS_UP XID_ERROR SBE_VIOLATION DBE_VIOLATION PCIE_REPLAY_VIOLATION
SBE_THRESHOLD_VIOLATION DBE_THRESHOLD_VIOLATION PCIE_REPLAY_THRESHOLD_VIOLATION CUDA_FM_NOT_INITIALIZED SXID_ERROR
GFLOPS_THRESHOLD_VIOLATION NAN_VALUE FABRIC_MANAGER_TRAINING_ERROR BROKEN_P2P_PCIE_MEMORY_DEVICE BROKEN_P2P_PCIE_WRITER_DEVICE
BROKEN_P2P_NVLINK_MEMORY_DEVICE BROKEN_P2P_NVLINK_WRITER_DEVICE TEST_SKIPPED SRAM_THRESHOLD NVLINK_EFFECTIVE_BER_THRESHOLD
FALLEN_OFF_BUS NVLINK_SYMBOL_BER_THRESHOLD IMEX_UNHEALTHY FABRIC_PROBE_STATE BINARY_PERMISSIONS
GPU_RECOVERY_RESET GPU_RECOVERY_REBOOT GPU_RECOVERY_DRAIN_P2P GPU_RECOVERY_DRAIN_RESET NCCL_ERROR
RETEST_REQUESTED CONTAINED_ERROR UNCORRECTABLE_ROW_REMAP_LIMIT
`)
