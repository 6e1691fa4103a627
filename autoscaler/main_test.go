package main

import (
	"bytes"
	"compress/gzip"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

func packed(t *testing.T, text string) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if _, err := z.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestReadText(t *testing.T) {
	const want = "pool p max=4\n"
	for what, text := range map[string][]byte{
		"plain":                []byte(want),
		"with a mark":          []byte("\ufeff" + want),
		"packed":               packed(t, want),
		"packed with its mark": packed(t, "\ufeff"+want),
	} {
		if got, err := readText(bytes.NewReader(text)); got != want || err != nil {
			t.Errorf("%s: got %q, %v", what, got, err)
		}
	}
	if got, err := readText(strings.NewReader("")); got != "" || err != nil {
		t.Errorf("nothing: got %q, %v", got, err)
	}
	for _, broken := range [][]byte{packed(t, want)[:4], packed(t, strings.Repeat(want, 100))[:30]} {
		if got, err := readText(bytes.NewReader(broken)); err == nil {
			t.Errorf("truncated: got %q", got)
		}
	}
}

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"gpuscale-autoscaler": main})
}

func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"code": exitsWith,
		},
	})
}

// exitsWith runs the program and compares its exit code: code 3 plan -f FILE.
func exitsWith(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 1 {
		ts.Fatalf("usage: code N args...")
	}
	err := ts.Exec("gpuscale-autoscaler", args[1:]...)
	got := "0"
	if err != nil {
		got = err.Error()
	}
	if got != args[0] && got != "exit status "+args[0] {
		ts.Fatalf("got %s, want %s", got, args[0])
	}
}
