package fakedcgm

import (
	"fmt"
	"math"
	"strconv"

	"github.com/gpuscale/gpuscale/internal/fakenvml"
)

// EnvLog is the environment variable with the path of the host engine's log, to which it
// appends a line "unwatched KIND ID FIELD" for each value that is read and not watched, and
// "unsupported KIND ID FIELD" for each with the status -6, as DCGM logs at its default level,
// and "hierarchy" for each reading of the MIG hierarchy,
// which DCGM takes 90 ms for. Without it there is no log.
const EnvLog = "FAKEDCGM_LOG"

// State is the machine that the fake simulates: fakenvml's, and what only DCGM knows. The
// fake reads the file again whenever it has changed. DCGM's number of a GPU is its index; see
// InstanceID for those of instances, which follow NVML's order of profiles.
//
// Values of GPUs and instances have fields by Field, and of GPUs also
//
//	away 1          DCGM does not list it
//	detached 1      the driver has it no longer: DCGM lists it and knows its name, and its values are blank
//	frozen 1        watches take no new sample of it
//	profiled F F …  the fields it can profile, where they are not 1001 … 1012; none where the field 1001 is
//	                "!unsupported"
//
// Fields that follow from the rest of the machine (name, UUID, MIG mode, total memory, last XID) need
// not be set, and one that DCGM measures on GPUs only is the GPU's on its instances. A GPU that is
// lost reads blank. Lines of the machine are fakenvml's and
//
//	incident.N GPU SYSTEM RESULT CODE   the N-th finding of the health system; the GPU's number,
//	                     DCGM_HEALTH_WATCH_*, 10 a warning or 20 a failure, DCGM_FR_*
//	peer.FROM.TO STATUS  a peer-to-peer status that is not 0
//	links36 1            DCGM 4.6, which knows 36 links of a GPU; before there were 18
type State struct {
	fakenvml.State
	// Engine is a remote host engine, "ADDRESS XIDS RUN": it knew so many of the XIDs when it
	// began. RUN is another one when it is started again. Empty: none answers.
	Engine string
	Parts  []Part
	// XIDs in the order in which the host engine learns of them. One knows those that happened
	// while it runs: not those that are there when it starts, unless they are in the kernel log.
	XIDs []XID
}

// Entity groups, as DCGM numbers them.
const (
	KindGPU      = 1
	KindSwitch   = 3
	KindInstance = 4
	KindCompute  = 5
	KindLink     = 6
	KindCPU      = 7
	KindCore     = 8
)

// Part is something beside the GPUs: an NvSwitch, an NVLink, whose ID is LinkID's and which has
// the value "up" "1" where it is, a CPU that DCGM knows (Grace) with "cores" "FIRST LAST", or a
// core that has values.
type Part struct {
	Kind   int
	ID     uint32
	Values fakenvml.Lines
}

// XID is one error event. DCGM keeps each as a value of field 230 with the time of the event.
type XID struct {
	Kind, ID int // of the GPU, GPU instance or compute instance that DCGM attributes it to
	Code     int
	At       int64 // microseconds since 1970
	Kernel   bool  // read from the kernel log, of a GPU only
}

// LinkID is a dcgm_link_t: the kind of what the link belongs to, its index and that entity in 8,
// 16 and 8 bits.
func LinkID(kind, of, index int) uint32 { return uint32(kind) | uint32(index)<<8 | uint32(of)<<24 }

// InstanceID is DCGM's entity id of the k-th GPU instance of an H100, where all are of one profile, and of the
// k-th compute instance.
func InstanceID(gpu, k int) int { return 7*gpu + k }

// Field is the name of a DCGM field among the values. A value is a number or a text in DCGM's own
// unit, "!unsupported" for DCGM's blank of what is not supported, or "!status:-18" for a status
// without a value. Without a value it is blank.
func Field(id uint16) string { return fmt.Sprint("f.", id) }

// Fields are numbers by their fields, with NaN for what is not supported.
func Fields(numbers map[uint16]float64) fakenvml.Lines {
	values := fakenvml.Lines{}
	for id, n := range numbers {
		values[Field(id)] = strconv.FormatFloat(n, 'g', -1, 64)
		if math.IsNaN(n) {
			values[Field(id)] = "!unsupported"
		}
	}
	return values
}

// Write puts the state at path by replacing the file.
func (s State) Write(path string) error {
	s.DCGM = struct {
		Engine string `json:",omitempty"`
		Parts  []Part
		XIDs   []XID
	}{s.Engine, s.Parts, s.XIDs}
	return s.State.Write(path)
}
