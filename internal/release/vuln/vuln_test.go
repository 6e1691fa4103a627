package vuln

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// tool is a double of govulncheck: it says which database it was given and ends
// with a code. The real one is used where GPUSCALE_GOVULNCHECK names it.
func tool(t *testing.T, code int) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "govulncheck")
	text := fmt.Sprintf("#!/bin/sh\necho \"$@\"\n[ %d = 0 ] || echo 'because of this' >&2\nexit %d\n", code, code)
	if err := os.WriteFile(file, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
	return file
}

func mirror(t *testing.T) string {
	t.Helper()
	dir, err := filepath.Abs(filepath.Join("testdata", "db"))
	if err != nil {
		t.Fatal(err)
	}
	return "file://" + dir
}

func TestAnswers(t *testing.T) {
	served := httptest.NewServer(http.FileServer(http.Dir(filepath.Join("testdata", "db"))))
	defer served.Close()
	empty := httptest.NewServer(http.NotFoundHandler())
	defer empty.Close()
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	for _, c := range []struct {
		name, db string
		code     int
		want     Answer
		why      string
	}{
		{"a mirror, nothing found", mirror(t), 0, Clean, ""},
		{"a mirror, found", mirror(t), 3, Found, ""},
		{"a server, found", served.URL, 3, Found, ""},
		{"it fails", mirror(t), 1, NotChecked, "because of this"},
		{"nobody answers", gone.URL, 0, NotChecked, "cannot be read"},
		{"no database there", empty.URL, 0, NotChecked, "404"},
		{"an empty mirror", "file://" + t.TempDir(), 0, NotChecked, "db.json"},
		{"a strange address", "ftp://x", 0, NotChecked, "want https:// or file://"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var out strings.Builder
			got, why := Check(t.Context(), Options{Tool: tool(t, c.code), DB: c.db, Args: []string{"./..."}, Out: &out})
			if got != c.want || !strings.Contains(why, c.why) || (why != "") != (c.want == NotChecked) {
				t.Errorf("got %v because %q, want %v", got, why, c.want)
			}
			if c.want != NotChecked && out.String() != "-db "+c.db+" ./...\n" {
				t.Errorf("govulncheck was asked %q", out.String())
			}
		})
	}
	t.Run("no tool", func(t *testing.T) {
		if got, why := Check(t.Context(), Options{Tool: filepath.Join(t.TempDir(), "none"), DB: mirror(t)}); got != NotChecked || why == "" {
			t.Errorf("got %v because %q", got, why)
		}
	})
	t.Run("a tool that cannot be built", func(t *testing.T) {
		t.Setenv("GOPROXY", "off")
		o := Options{Tool: filepath.Join(t.TempDir(), "none"), Install: "example.test/none@v1.0.0", DB: mirror(t)}
		if got, why := Check(t.Context(), o); got != NotChecked || !strings.Contains(why, "building example.test/none") {
			t.Errorf("got %v because %q", got, why)
		}
	})
}

func TestSay(t *testing.T) {
	for a, want := range map[Answer]string{
		Clean: "vulnerabilities: none known in x", Found: "vulnerabilities: FOUND in x", NotChecked: "vulnerabilities: NOT CHECKED in x: no net",
	} {
		if got := a.Say("x", "no net"); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// The real govulncheck over a database of two made-up vulnerabilities: one in a
// function that the program calls, one in a module it has not.
func TestRealTool(t *testing.T) {
	real := os.Getenv("GPUSCALE_GOVULNCHECK")
	if real == "" {
		t.Skip("GPUSCALE_GOVULNCHECK is not set: make release-check sets it where govulncheck can be had")
	}
	for name, want := range map[string]Answer{"calls": Found, "harmless": Clean} {
		t.Run(name, func(t *testing.T) {
			var out strings.Builder
			got, why := Check(t.Context(), Options{Tool: real, DB: mirror(t), Dir: program(t, name == "calls"), Args: []string{"."}, Out: &out})
			if got != want {
				t.Errorf("got %v because %q, want %v:\n%s", got, why, want, out.String())
			}
			if want == Found && !strings.Contains(out.String(), "GO-0000-0001") {
				t.Errorf("it does not name the vulnerability:\n%s", out.String())
			}
		})
	}
}

// program is a module of one file: the vulnerability is in the standard library,
// so that nothing has to be fetched.
func program(t *testing.T, calls bool) string {
	t.Helper()
	dir := t.TempDir()
	body := "package main\n\nimport \"strings\"\n\nfunc main() { println(strings.ToUpper(\"x\")) }\n"
	if calls {
		body = strings.ReplaceAll(body, "ToUpper", "ToTitle")
	}
	for name, text := range map[string]string{"go.mod": "module example.test/x\n\ngo 1.26\n", "main.go": body} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}
