package text

import (
	"os/exec"
	"testing"
)

// A shell parses a quoted text back to the same text.
func TestQuote(t *testing.T) {
	sh, err := exec.LookPath("sh")
	if err != nil {
		t.Skip("there is no sh on this machine")
	}
	for _, word := range []string{"", "plain", "a b", `it's`, `$(reboot)`, "`id`", "a;b&&c|d>e", `\`, `'"'`, "*", "~", "!x", "#", "ümlaut", "-n"} {
		out, err := exec.CommandContext(t.Context(), sh, "-c", "printf %s "+Quote(word)).Output()
		if err != nil || string(out) != word {
			t.Errorf("%q became %q, %v", word, out, err)
		}
	}
}

func TestDistance(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"abc", "abc", 0}, {"", "abc", 3}, {"abc", "", 3}, {"abc", "abd", 1}, {"abc", "bc", 1}, {"kitten", "sitting", 3}, {"gpu_busy", "gpu_bussy", 1}} {
		if got := Distance(c.a, c.b); got != c.want {
			t.Errorf("%q, %q: %d, want %d", c.a, c.b, got, c.want)
		}
	}
}

func TestLines(t *testing.T) {
	if got := Lines("a\x1b[2J\n\tb\n"); got != "a\ufffd[2J\n b\n" {
		t.Errorf("%q", got)
	}
}

func TestLine(t *testing.T) {
	for text, want := range map[string]string{
		"a b ü 猫": "a b ü 猫", "a\nb\tc": "a b c", "\x1b[31m\u202e\u061c\u200b\x00\u009b": "\ufffd[31m\ufffd\ufffd\ufffd\ufffd\ufffd", "\xff": "\ufffd",
	} {
		if got := Line(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

func TestThousands(t *testing.T) {
	for in, want := range map[string]string{"0": "0", "-999": "-999", "999": "999", "1000": "1,000", "-1234567.5": "-1,234,567.5"} {
		if got := Thousands(in); got != want {
			t.Errorf("%s: got %s, want %s", in, got, want)
		}
	}
}
