package model

import "time"

// Schema is the version of the JSON form. A field may be added within it; a field that
// is removed, or changes its meaning, makes a new one.
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

// Window is the time the report is about.
type Window struct {
	From  time.Time `json:"from"`
	Until time.Time `json:"until"`
	Hours float64   `json:"hours" doc:"Length in hours."`
}
