package collect

import (
	"strconv"

	"github.com/gpuscale/gpuscale/gpu/metric"
)

// xidErrors has a series for each code that a card has had.
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
	key := "xid\x00" + strconv.Itoa(code)
	if text, ok := l.texts[key]; ok {
		return text
	}
	b := appendLabel([]byte(l.compat), "err_code", strconv.Itoa(code))
	text := string(appendLabel(b, "err_msg", xidMeaning(code)))
	l.texts[key] = text
	return text
}

// xidMeaning is NVIDIA's short text of the XIDs seen in practice.
func xidMeaning(code int) string {
	switch code {
	case 0:
		return "No Error"
	case 13:
		return "Graphics Engine Exception"
	case 31:
		return "GPU memory page fault"
	case 32:
		return "Invalid or corrupted push buffer stream"
	case 38:
		return "Driver firmware error"
	case 43:
		return "GPU stopped processing"
	case 45:
		return "Preemptive cleanup, due to previous errors -- Most likely to see when running multiple cuda"
	case 48:
		return "Double Bit ECC Error"
	case 61:
		return "Internal micro-controller breakpoint/warning"
	case 62, 169:
		return "Internal micro-controller halt"
	case 63:
		return "ECC page retirement or row remapping recording event"
	case 64:
		return "ECC page retirement or row remapper recording failure"
	case 69:
		return "Graphics Engine class error"
	case 74:
		return "NVLINK Error"
	case 79:
		return "GPU has fallen off the bus"
	case 92:
		return "High single-bit ECC error rate"
	case 94:
		return "Contained ECC error"
	case 95:
		return "Uncontained ECC error"
	case 109:
		return "Context Switch Timeout Error"
	case 119:
		return "GSP RPC Timeout"
	case 120:
		return "GSP Error"
	case 140:
		return "Unrecovered ECC Error"
	case 143:
		return "GPU Initialization Failure"
	case 154:
		return "GPU Recovery Action Changed"
	}
	return "Unknown Error"
}
