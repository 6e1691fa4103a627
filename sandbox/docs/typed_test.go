package docs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
)

// TestPages reads each page as a user does who believes it: objects are applied, files
// are given to the programs that read them, queries are parsed, and commands are typed.
func TestPages(t *testing.T) {
	b := start(t)
	tree := tree(t, forUsers)
	for path, p := range tree.Pages {
		t.Run(path, func(t *testing.T) {
			w, err := b.newTypist(p)
			if err != nil {
				t.Fatal(err)
			}
			defer w.close()
			for _, block := range p.Blocks {
				if err := w.judge(t.Context(), tree, block); err != nil {
					t.Errorf("%s:%d: %v", path, block.Line, err)
				}
			}
			for _, s := range p.Spans {
				if err := w.checkSpan(t.Context(), s); err != nil {
					t.Errorf("%s:%d: %s: %v", path, s.Line, s.Text, err)
				}
			}
		})
	}
}

// TestNotes: what helm prints after an installation. Its commands stand behind two
// blanks.
func TestNotes(t *testing.T) {
	b := start(t)
	w, err := b.newTypist(Page{Path: "NOTES.txt"})
	if err != nil {
		t.Fatal(err)
	}
	defer w.close()
	notes, err := w.bash(t.Context(), "helm get notes gpuscale --namespace "+system)
	if err != nil {
		t.Fatal(err, notes)
	}
	tree, n := tree(t, forUsers), 0
	for i, line := range strings.Split(notes, "\n") {
		text, ok := strings.CutPrefix(line, "  ")
		if !ok {
			continue
		}
		n++
		if err := w.commandLine(t.Context(), tree, Command{Page: "NOTES.txt", Line: i + 1, Text: text}); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
	if n < 3 {
		t.Errorf("only %d commands in\n%s", n, notes)
	}
}

// commands types what is not in the table of what is not run.
func (w *typist) commands(ctx context.Context, tree Tree, b Block) error {
	var problems []error
	for _, c := range b.Commands() {
		if err := w.commandLine(ctx, tree, c); err != nil {
			problems = append(problems, fmt.Errorf("line %d: %s: %w", c.Line, c.Text, err))
		}
	}
	return errors.Join(problems...)
}

// elsewhere are commands that other tests run: what they name is looked up.
var elsewhere = regexp.MustCompile(`^(?:make|go) `)

func (w *typist) commandLine(ctx context.Context, tree Tree, c Command) error {
	if err := c.Check(); err != nil {
		return err
	}
	if err := w.checkWords(ctx, tree, c.Text); err != nil {
		return err
	}
	for _, u := range unrun {
		if u.page == c.Page && u.text == c.Text {
			return nil
		}
	}
	if segments, _ := Words(c.Text); slices.ContainsFunc(segments, func(words []string) bool { return slices.Contains(Strangers, words[0]) }) {
		return errors.New("nobody types this here: it belongs into the table of what is not run, with a reason")
	}
	if w.setUp[c.place()] || elsewhere.MatchString(c.Text) && !goRun.MatchString(c.Text) {
		return nil
	}
	want := answer{}
	for _, a := range answers {
		if a.of(c) {
			want = a
		}
	}
	out, err := w.run(ctx, c)
	got := statusOf(err)
	if got == brokenPipe && cutShort.MatchString(c.Text) {
		got = 0
	}
	if got != want.status || !strings.Contains(out, want.says) {
		return fmt.Errorf("it ends with %d, not with %d and %q: %v\ntyped: %s\n%s", got, want.status, want.says, err, w.as(c.Text), out)
	}
	return nil
}

// brokenPipe is what a pipeline ends with in which somebody was cut short while writing;
// whether that happens to who writes to head is a matter of microseconds.
const brokenPipe = 128 + 13

var cutShort = regexp.MustCompile(`\|\s*head\b`)

// of says whether a command is the one that ends so.
func (a answer) of(c Command) bool {
	text := strings.TrimSpace(c.Text)
	if a.page == "" {
		return regexp.MustCompile(a.text).MatchString(text)
	}
	return a.page == c.Page && a.text == text
}

func statusOf(err error) int {
	if err == nil {
		return 0
	}
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return exit.ExitCode()
	}
	return -1
}

// goRun is how contributors start a program that users have installed.
var goRun = regexp.MustCompile(`^go run \./(exporter|adapter|autoscaler|report|dashboards)\b`)

// judged are the programs whose flags are held against their --help.
var judged = []string{"kubectl", "helm", "gpuscale-exporter", "gpuscale-adapter", "gpuscale-autoscaler", "gpuscale-report", "gpuscale-dashboards"}

// checkWords looks at what can be told without running a command.
func (w *typist) checkWords(ctx context.Context, tree Tree, text string) error {
	segments, err := Words(goRun.ReplaceAllString(text, "gpuscale-$1"))
	if err != nil {
		return nil // a here-document
	}
	for _, words := range segments {
		switch {
		case words[0] == "make":
			err = tree.CheckMake(words)
		case words[0] == "go":
			err = tree.CheckGo(words)
		case words[0] == "gpuscale-sandbox":
			err = tree.checkDefined("sandbox", words[1:])
		case slices.Contains(judged, words[0]):
			err = CheckFlags(words, w.help(ctx))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// checkSpan looks at commands within a sentence.
func (w *typist) checkSpan(ctx context.Context, s Span) error {
	segments, err := Words(s.Text)
	if err != nil || strings.Contains(s.Text, "…") {
		return nil // a part of something
	}
	for _, words := range segments {
		if slices.Contains(judged, words[0]) && len(words) > 1 {
			if err := CheckFlags(words, w.help(ctx)); err != nil {
				return err
			}
		}
	}
	return nil
}

var helps sync.Map

// help runs a program for what it says, once.
func (b *bed) help(ctx context.Context) Help {
	return func(program string, subcommands []string) (string, bool) {
		key := program + " " + strings.Join(subcommands, " ")
		if text, ok := helps.Load(key); ok {
			return text.(string), true
		}
		var out bytes.Buffer
		asks := [][]string{append(slices.Clone(subcommands), "--help")}
		if program == "kubectl" {
			asks = append(asks, []string{"options"})
		}
		for _, args := range asks {
			cmd := exec.CommandContext(ctx, filepath.Join(b.bin, program), args...)
			cmd.Stdout, cmd.Stderr = &out, &out
			if err := cmd.Run(); err != nil {
				return "", false
			}
		}
		helps.Store(key, out.String())
		return out.String(), true
	}
}
