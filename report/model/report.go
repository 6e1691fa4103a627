package model

import "time"

// Schema is the version of the JSON form. A field may be added within it; a field
// that goes, or means something else, makes a new one.
const Schema = 1

// Report is the capacity report. Hours are hours of whole cards (a 3g slice of an
// H100 for seven hours is three), money is in Currency, shares are from 0 to 1.
// The tag doc is what the JSON schema says about a field.
type Report struct {
	Schema      int         `json:"schema" doc:"Version of this form: 1."`
	Generated   time.Time   `json:"generated" doc:"When the report was made."`
	Version     string      `json:"version" doc:"Version of gpuscale-report that made it."`
	Window      Window      `json:"window" doc:"The time the report is about."`
	Currency    string      `json:"currency" doc:"Currency of all money; empty where there are no prices."`
	Answer      Answer      `json:"answer" doc:"Section 0."`
	Hours       Hours       `json:"hours" doc:"Section 1: where every GPU-hour went."`
	Demand      Demand      `json:"demand" doc:"Section 2: who waited, and for what."`
	Use         Use         `json:"use" doc:"Section 3: by team, namespace and model."`
	Pools       []Pool      `json:"pools" doc:"Section 4: node pools."`
	MIG         MIG         `json:"mig" doc:"Section 5: MIG and right-sizing."`
	Forecast    Forecast    `json:"forecast" doc:"Section 6."`
	Actions     []Action    `json:"actions" doc:"Section 7: what to do, the most worth first."`
	Reliability Reliability `json:"reliability" doc:"Section 8."`
	Changes     Changes     `json:"changes" doc:"Section 9: since the report before."`
	Methods     Methods     `json:"methods" doc:"Section A: how it was made."`
}

// Window is the time the report is about.
type Window struct {
	From  time.Time `json:"from"`
	Until time.Time `json:"until"`
	Hours float64   `json:"hours" doc:"Length in hours."`
}
