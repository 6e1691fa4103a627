package main

import (
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/gpuscale/gpuscale/report/fixture"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"gpuscale-report": main})
}

// minutes is what a demonstration has recorded: twenty minutes.
var minutes = sync.OnceValue(fixture.Minutes)

// TestScripts plays the command line against servers that answer with Prometheus'
// own engine: $PROM has twenty minutes of a cluster, $EMPTY nothing, $DENIED asks
// for a credential, $ALONE has no autoscaler, and at $NOWHERE nobody listens.
func TestScripts(t *testing.T) {
	serve := func(h http.Handler) string {
		s := httptest.NewServer(h)
		t.Cleanup(s.Close)
		return s.URL
	}
	p := minutes().Prometheus
	p.Frozen = fixture.StoryEnd
	urls := map[string]string{
		"PROM":  serve(p.Handler()),
		"ALONE": serve(fixture.Minutes().Prometheus.Without("gpuscale_autoscaler_").Handler()),
		"EMPTY": serve(fixture.New().Handler()),
		"DENIED": serve(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Authorization") != "Bearer let-me-in" {
				http.Error(w, "who are you?", http.StatusUnauthorized)
				return
			}
			p.Handler().ServeHTTP(w, r)
		})),
		"NOWHERE": "http://127.0.0.1:1",
		"UNTIL":   fixture.StoryEnd.Format("2006-01-02T15:04:05Z07:00"),
	}
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Setup: func(e *testscript.Env) error {
			for name, v := range urls {
				e.Setenv(name, v)
			}
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"code": exitsWith},
	})
}

// exitsWith runs the program and compares its exit code: code 3 top.
func exitsWith(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 1 {
		ts.Fatalf("usage: code N args...")
	}
	err := ts.Exec("gpuscale-report", args[1:]...)
	got := "0"
	if err != nil {
		got = err.Error()
	}
	if got != args[0] && got != "exit status "+args[0] {
		ts.Fatalf("got %s, want %s", got, args[0])
	}
}
