package collect

import (
	"cmp"
	"strconv"

	"github.com/gpuscale/gpuscale/gpu/metric"
)

// xidErrors has a series for each code that a GPU has had.
func xidErrors() family {
	return family{desc: metric.GPUXIDErrorsTotal, collect: func(m *Moment, d *metric.Desc, add adder) {
		for i := range m.subjects {
			s := &m.subjects[i]
			if s.entity.Kind != GPU || s.entity.Events == nil {
				continue
			}
			for _, x := range s.entity.Events.XIDs {
				add(s.labels.with(d, metric.LabelXID, strconv.FormatInt(x.Code, 10)), float64(x.Total), m.taken)
			}
		}
	}}
}

// xid returns the DCGM labels of the XID series, which dcgm-exporter gives the
// code and its meaning.
func (l *labelSet) xid(code int) string {
	return l.dcgm("err_code", strconv.Itoa(code), "err_msg", cmp.Or(xidMeanings[code], "Unknown Error"))
}

// xidMeanings are NVIDIA's short texts of the XIDs seen in practice.
var xidMeanings = map[int]string{
	0:   "No Error",
	13:  "Graphics Engine Exception",
	31:  "GPU memory page fault",
	32:  "Invalid or corrupted push buffer stream",
	38:  "Driver firmware error",
	43:  "GPU stopped processing",
	45:  "Preemptive cleanup, due to previous errors -- Most likely to see when running multiple cuda",
	48:  "Double Bit ECC Error",
	61:  "Internal micro-controller breakpoint/warning",
	62:  "Internal micro-controller halt",
	169: "Internal micro-controller halt",
	63:  "ECC page retirement or row remapping recording event",
	64:  "ECC page retirement or row remapper recording failure",
	69:  "Graphics Engine class error",
	74:  "NVLINK Error",
	79:  "GPU has fallen off the bus",
	92:  "High single-bit ECC error rate",
	94:  "Contained ECC error",
	95:  "Uncontained ECC error",
	109: "Context Switch Timeout Error",
	119: "GSP RPC Timeout",
	120: "GSP Error",
	140: "Unrecovered ECC Error",
	143: "GPU Initialization Failure",
	154: "GPU Recovery Action Changed",
}
