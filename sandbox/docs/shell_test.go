package docs

import (
	"fmt"
	"strings"
	"testing"
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
