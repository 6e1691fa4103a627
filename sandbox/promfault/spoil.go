package promfault

import (
	"encoding/json"
	"fmt"
	"strconv"
	"time"
)

// document is an answer of Prometheus' query API, as far as it is changed.
type document struct {
	Status    string   `json:"status"`
	Data      data     `json:"data"`
	Warnings  []string `json:"warnings,omitempty"`
	IsPartial bool     `json:"isPartial,omitempty"`
}

type data struct {
	ResultType string          `json:"resultType"`
	Result     json.RawMessage `json:"result"`
}

type series struct {
	Metric map[string]string  `json:"metric"`
	Value  [2]json.RawMessage `json:"value"`
}

// spoil changes an answer. One that reports an error stays as it is.
func spoil(how Answer, body []byte, now time.Time) ([]byte, error) {
	var d document
	if err := json.Unmarshal(body, &d); err != nil {
		return nil, fmt.Errorf("spoiling an answer: it is no JSON document of Prometheus: %w", err)
	}
	if d.Status != "success" || len(d.Data.Result) == 0 {
		return body, nil
	}
	at := json.RawMessage(strconv.FormatFloat(float64(now.UnixMilli())/1000, 'f', 3, 64))
	switch how {
	case Empty:
		d.Data = data{ResultType: "vector", Result: json.RawMessage("[]")}
	case ScalarZero:
		d.Data = data{ResultType: "scalar", Result: json.RawMessage(`[` + string(at) + `,"0"]`)}
	case Warned:
		d.Warnings = append(d.Warnings, "fetch series for store store-1: rpc error: code = Unavailable")
	case IsPartial:
		d.IsPartial = true
	case Stale:
		if d.Data.ResultType != "vector" {
			return body, nil
		}
		var vector []series
		if err := json.Unmarshal(d.Data.Result, &vector); err != nil {
			return nil, fmt.Errorf("spoiling an answer: reading its series: %w", err)
		}
		for i := range vector {
			vector[i].Value[0] = at
		}
		changed, err := json.Marshal(vector)
		if err != nil {
			return nil, fmt.Errorf("spoiling an answer: %w", err)
		}
		d.Data.Result = changed
	}
	return json.Marshal(d)
}
