package model

import (
	"encoding/json"
	"math"
	"strconv"
	"time"
)

// Schema is the version of the JSON form. New fields do not change it. Removing a field, or changing its
// meaning, does.
const Schema = 1

// Report is the capacity report. Hours are hours of whole GPUs (a 3g slice of an
// H100 for seven hours is three), money is in Currency, shares are from 0 to 1.
// The tag doc is the field's description in the JSON schema.
type Report struct {
	Schema      int         `json:"schema" doc:"Version of this form: 1."`
	Generated   time.Time   `json:"generated" doc:"When the report was made."`
	Version     string      `json:"version" doc:"Version of gpuscale-report that made it."`
	Window      Window      `json:"window" doc:"The time of the report."`
	Currency    string      `json:"currency" doc:"Currency of all money; empty where there are no prices."`
	Answer      Answer      `json:"answer" doc:"Section 0."`
	Hours       Hours       `json:"hours" doc:"Section 1: what became of every GPU-hour."`
	Demand      Demand      `json:"demand" doc:"Section 2: pending demand."`
	Use         Use         `json:"use" doc:"Section 3: by team, namespace and model."`
	Pools       []Pool      `json:"pools" doc:"Section 4: node pools."`
	MIG         MIG         `json:"mig" doc:"Section 5: MIG and right-sizing."`
	Forecast    Forecast    `json:"forecast" doc:"Section 6."`
	Actions     []Action    `json:"actions" doc:"Section 7: actions, the most worth first."`
	Reliability Reliability `json:"reliability" doc:"Section 8."`
	Methods     Methods     `json:"methods" doc:"Section A: how it was computed."`
}

// Window is the time range of the report.
type Window struct {
	From  time.Time `json:"from"`
	Until time.Time `json:"until"`
	Hours float64   `json:"hours" doc:"Length in hours."`
}

// Number is a figure, or the reason why it is unknown. In JSON it is a number or an object {"unknown":
// "why"}, so an unknown figure cannot be read as zero.
type Number struct {
	v     float64
	known bool
	why   string
}

// Known makes a Number of v. NaN and infinities become unknown.
func Known(v float64) Number {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return Unknown("not a number")
	}
	return Number{v: v, known: true}
}

// Unknown makes a Number that is unknown for this reason.
func Unknown(why string) Number { return Number{why: why} }

// Get returns the number, if it is known.
func (n Number) Get() (float64, bool) { return n.v, n.known }

// Or returns the number, or v if it is unknown. It is for sorting and drawing, never for sums.
func (n Number) Or(v float64) float64 {
	if n.known {
		return n.v
	}
	return v
}

// Why is the reason why the number is unknown; empty if it is known.
func (n Number) Why() string {
	if !n.known && n.why == "" {
		return "not asked"
	}
	return n.why
}

// Times returns the product. It is unknown if the number is.
func (n Number) Times(f float64) Number {
	if !n.known {
		return n
	}
	return Known(n.v * f)
}

// Over returns the quotient. It is unknown if either number is, or if d is zero.
func (n Number) Over(d Number) Number {
	switch {
	case !n.known:
		return n
	case !d.known:
		return d
	case d.v == 0:
		return Unknown("nothing to divide by")
	}
	return Known(n.v / d.v)
}

// Plus returns the sum. It is unknown if either number is.
func (n Number) Plus(o Number) Number {
	switch {
	case !n.known:
		return n
	case !o.known:
		return o
	}
	return Known(n.v + o.v)
}

// MarshalJSON rounds to six significant digits, which is more precise than any figure.
func (n Number) MarshalJSON() ([]byte, error) {
	if !n.known {
		return json.Marshal(struct {
			Unknown string `json:"unknown"`
		}{n.Why()})
	}
	rounded, err := strconv.ParseFloat(strconv.FormatFloat(n.v, 'g', 6, 64), 64)
	if err != nil {
		return nil, err
	}
	return json.Marshal(rounded)
}
