package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"time"
)

// auditPolicy has the API server note every request of the autoscaler's service
// account once, and nobody else's.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: Metadata
  users: ["system:serviceaccount:` + system + `:gpuscale-autoscaler"]
- level: None
`

// requests counts by verb and resource, "patch nodes".
type requests map[string]int

// auditFile reads those lines of an audit log that lie in a time. A watch counts when
// it begins.
func auditFile(path string, from, to time.Time) (requests, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("reading the audit log: %w", err)
	}
	defer f.Close()
	return readAudit(f, from, to)
}

func readAudit(r io.Reader, from, to time.Time) (requests, error) {
	out := requests{}
	lines := bufio.NewReader(r)
	for {
		line, err := lines.ReadBytes('\n')
		if err == io.EOF {
			return out, nil // what has no end yet is still being written
		}
		if err != nil {
			return nil, fmt.Errorf("reading the audit log: %w", err)
		}
		var e struct {
			Stage     string    `json:"stage"`
			Verb      string    `json:"verb"`
			At        time.Time `json:"requestReceivedTimestamp"`
			ObjectRef struct {
				Resource    string `json:"resource"`
				Subresource string `json:"subresource"`
			} `json:"objectRef"`
		}
		if err := json.Unmarshal(line, &e); err != nil {
			return nil, fmt.Errorf("reading the audit log: %w in %.200q", err, line)
		}
		if e.At.Before(from) || !e.At.Before(to) || e.Verb == "watch" && e.Stage == "ResponseComplete" || e.Verb != "watch" && e.Stage == "ResponseStarted" {
			continue
		}
		what := e.ObjectRef.Resource
		if e.ObjectRef.Subresource != "" {
			what += "/" + e.ObjectRef.Subresource
		}
		out[e.Verb+" "+what]++
	}
}

func (r requests) sum(of func(what string) bool) int {
	n := 0
	for what, times := range r {
		if of(what) {
			n += times
		}
	}
	return n
}
