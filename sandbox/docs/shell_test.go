package docs

import (
	"fmt"
	"strings"
	"testing"

	"mvdan.cc/sh/v3/syntax"
)

func TestCommandsOfABlock(t *testing.T) {
	block := blockOf(t, fenced("sh", `# what follows
kubectl get \
  nodes
kubectl apply -f - <<'EOF'
a: 1

EOF
echo 'a
b'   # a comment`))
	var got []string
	for _, c := range block.Commands() {
		got = append(got, fmt.Sprintf("%d %q", c.Line, c.Text))
		if err := c.Check(); err != nil {
			t.Error(err)
		}
	}
	want := []string{`3 "kubectl get \\\n  nodes"`, `5 "kubectl apply -f - <<'EOF'\na: 1\n\nEOF"`, `9 "echo 'a\nb'   # a comment"`}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	prompted := blockOf(t, fenced("console", "$ kubectl get nodes\nNAME\n$ helm list"))
	if c := prompted.Commands(); len(c) != 2 || c[1].Line != 4 || c[1].Text != "helm list" {
		t.Errorf("%+v", c)
	}
	if err := (Command{Text: "kubectl get nodes | sponge x"}).Check(); err == nil || !strings.Contains(err.Error(), "sponge") {
		t.Errorf("an unknown program: %v", err)
	}
}

func TestWords(t *testing.T) {
	for text, want := range map[string]string{
		`kubectl get nodes`:             "[[kubectl get nodes]]",
		`a 'b c' "d \" e" f\ g # h`:     `[[a b c d " e f g]]`,
		`a | b && c; d & e`:             "[[a] [b] [c] [d] [e]]",
		`X=1 a > out 2>&1 < in`:         "[[a]]",
		`a -H "B $(c d)" $(e f)/h 'i'j`: "[[a -H B $(c d) $(e f)/h ij] [c d] [e f]]",
		"a \\\n b":                      "[[a b]]",
		`a=b`:                           "[]",
		`a --b={"c":1}`:                 "[[a --b={c:1}]]",
		`curl 'http://x?a=1&b=2' -d @- >/dev/null &`: "[[curl http://x?a=1&b=2 -d @-]]",
	} {
		got, err := Words(text)
		if err != nil || fmt.Sprint(got) != want {
			t.Errorf("%s: %v %v, want %s", text, got, err, want)
		}
	}
	for _, text := range []string{`a 'b`, `a "b`, `a $(b`} {
		if _, err := Words(text); !syntax.IsIncomplete(err) {
			t.Errorf("%s: %v", text, err)
		}
	}
}
