package build

import (
	"fmt"
	"path"
	"regexp"
	"strings"
)

// module is how go names what it could not fetch: path@version.
var module = regexp.MustCompile(`([a-zA-Z0-9][\w.~-]*\.[\w.~/-]+@v[\w.+~-]+)`)

// explain returns what went wrong in a go command and what to do about it.
// lines are its standard error.
func explain(t target, err error, lines []string) error {
	all := strings.Join(lines, "\n")
	has := func(some ...string) bool {
		for _, s := range some {
			if strings.Contains(all, s) {
				return true
			}
		}
		return false
	}
	switch {
	case has("no space left on device", "No space left on device", "disk quota exceeded"):
		return fmt.Errorf("compiling %s: the disk is full: it needs about %s, most of it in Go's build cache (%s) and while linking in the folder for temporary files (%s); free some, or point GOCACHE and TMPDIR to another disk",
			t.title, gib(t.disk), goCache(), tempDir())
	case has("signal: killed"), strings.Contains(err.Error(), "signal: killed"):
		return fmt.Errorf("compiling %s: the compiler was killed, which is what happens when the machine runs out of memory: it needs about 3 GiB free; close something, or compile one package at a time with GOMAXPROCS=1", t.title)
	case has("SECURITY ERROR", "checksum mismatch"):
		return fmt.Errorf("compiling %s: %s does not match its checksum in %s: it was changed on its way from the module proxy; check `go env GOPROXY`, and run `go clean -modcache` once it is right",
			t.title, failedModule(lines), path.Join(t.module, "go.sum"))
	case has("dial tcp", "no such host", "connection refused", "i/o timeout", "TLS handshake", "proxyconnect", "network is unreachable",
		"403 Forbidden", "404 Not Found", "410 Gone", "502 Bad Gateway", "503 Service", "unexpected EOF", "module lookup disabled", "connection reset"):
		return fmt.Errorf("compiling %s: cannot download %s: the first build needs the network (later ones do not); if you are behind a proxy set HTTPS_PROXY, if you have a module mirror set GOPROXY\n  go says: %s",
			t.title, failedModule(lines), lastMessage(lines))
	case has(`C compiler "`, `exec: "gcc"`):
		return fmt.Errorf("compiling %s: gcc is not found: the exporter links NVIDIA's C library; on Debian and Ubuntu: sudo apt-get install -y gcc libc6-dev\n  go says: %s", t.title, lastMessage(lines))
	case has(".h: No such file or directory"):
		return fmt.Errorf("compiling %s: gcc does not find the C library's headers; on Debian and Ubuntu: sudo apt-get install -y libc6-dev\n  gcc says: %s", t.title, firstWith(lines, ".h: No such file"))
	case has("requires go >=", "invalid go version", "toolchain not available"):
		return fmt.Errorf("compiling %s: the Go here is too old: %s is needed\n  go says: %s", t.title, goNeeded, lastMessage(lines))
	}
	return fmt.Errorf("compiling %s: %w\n  %s", t.title, err, strings.Join(messages(lines, 15), "\n  "))
}

// failedModule is the one in the last message that names one.
func failedModule(lines []string) string {
	all := messages(lines, len(lines))
	for i := len(all) - 1; i >= 0; i-- {
		if m := module.FindString(all[i]); m != "" {
			return "the module " + m
		}
	}
	return "a module"
}

// messages are the last lines that are not progress.
func messages(lines []string, most int) []string {
	var out []string
	for _, line := range lines {
		if strings.HasPrefix(line, "go: downloading ") || !strings.ContainsAny(line, " \t") {
			continue
		}
		out = append(out, strings.TrimSpace(line))
	}
	return out[max(0, len(out)-most):]
}

// firstWith is the first message that has the words.
func firstWith(lines []string, words string) string {
	for _, line := range lines {
		if strings.Contains(line, words) {
			return strings.TrimSpace(line)
		}
	}
	return "nothing"
}

func lastMessage(lines []string) string {
	if m := messages(lines, 1); len(m) > 0 {
		return m[0]
	}
	return "nothing"
}

func gib(n uint64) string { return fmt.Sprintf("%.1f GiB", float64(n)/(1<<30)) }
