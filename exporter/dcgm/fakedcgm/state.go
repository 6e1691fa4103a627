package fakedcgm

import (
	"fmt"
	"math"
	"strconv"

	"github.com/gpuscale/gpuscale/internal/fakenvml"
)

// EnvLog is the environment variable with the path of the host engine's log; without it there is no log.
// The log has the name of each function that is called. As DCGM does at its default level, it also has a
// line "unwatched KIND ID FIELD" for each value that is read but not watched, "unsupported KIND ID
// FIELD" for each value with the status -6, and "incident GPU" for each finding in an answer of the
// health watches.
const EnvLog = "FAKEDCGM_LOG"

// Entity groups, as DCGM numbers them.
const (
	KindGPU    = 1
	KindSwitch = 3
	KindLink   = 6
	KindCPU    = 7
	KindCore   = 8
)

// LinkID returns a dcgm_link_t: 8 bits for the kind of the entity that the link belongs to, 16
// for the link's index, and 8 for that entity's number.
func LinkID(kind, of, index int) uint32 { return uint32(kind) | uint32(index)<<8 | uint32(of)<<24 }

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
