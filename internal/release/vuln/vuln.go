package vuln

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// Answer is what is known about vulnerabilities after a run.
type Answer int

const (
	// NotChecked is the zero value: whoever forgets to set an answer claims nothing.
	NotChecked Answer = iota
	Clean
	Found
)

// Options of a run.
type Options struct {
	Tool    string // path of govulncheck
	Install string // package@version to build it from where it is not there; empty: it is not built
	DB      string // https:// or file:// address of the database; empty is the Go project's
	Dir     string // where it runs
	Args    []string
	Out     io.Writer // what govulncheck says
}

// publicDB is govulncheck's own default.
const publicDB = "https://vuln.go.dev"

// patience with a database that does not answer.
const patience = 10 * time.Second

// Check runs govulncheck. why says what stood in the way when the answer is
// NotChecked. Its exit codes are 0 for none found, 3 for found, others for
// failures; a failure after the database answered is NotChecked, too.
func Check(ctx context.Context, o Options) (a Answer, why string) {
	if o.DB == "" {
		o.DB = publicDB
	}
	// First the database: without one the tool need not be built.
	if err := reach(ctx, o.DB); err != nil {
		return NotChecked, fmt.Sprintf("the vulnerability database cannot be read: %v (GOVULNDB=file:///DIR names a mirror)", err)
	}
	if err := install(ctx, o); err != nil {
		return NotChecked, fmt.Sprintf("govulncheck is not there: %v", err)
	}
	cmd := exec.CommandContext(ctx, o.Tool, append([]string{"-db", o.DB}, o.Args...)...)
	cmd.Dir, cmd.Stdout = o.Dir, o.Out
	var errs strings.Builder
	cmd.Stderr = &errs
	err := cmd.Run()
	var exit *exec.ExitError
	switch {
	case err == nil:
		return Clean, ""
	case errors.As(err, &exit) && exit.ExitCode() == 3:
		return Found, ""
	default:
		first, _, _ := strings.Cut(strings.TrimSpace(errs.String()), "\n")
		return NotChecked, fmt.Sprintf("govulncheck failed: %v: %s", err, first)
	}
}

func install(ctx context.Context, o Options) error {
	_, err := os.Stat(o.Tool)
	if err == nil || o.Install == "" {
		return err
	}
	cmd := exec.CommandContext(ctx, "go", "install", o.Install)
	cmd.Env = append(os.Environ(), "GOBIN="+filepath.Dir(o.Tool), "GOFLAGS=")
	if said, err := cmd.CombinedOutput(); err != nil {
		first, _, _ := strings.Cut(string(said), "\n")
		return fmt.Errorf("building %s: %w: %s", o.Install, err, first)
	}
	return nil
}

// reach asks for the one file that every database has.
func reach(ctx context.Context, db string) error {
	u, err := url.Parse(db)
	if err != nil {
		return err
	}
	switch u.Scheme {
	case "file":
		_, err := os.Stat(filepath.Join(u.Path, "index", "db.json"))
		return err
	case "http", "https":
		ctx, cancel := context.WithTimeout(ctx, patience)
		defer cancel()
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(db, "/")+"/index/db.json", nil)
		if err != nil {
			return err
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			return fmt.Errorf("%s: %s", db, resp.Status)
		}
		return nil
	default:
		return fmt.Errorf("%q: want https:// or file://", db)
	}
}

// Say writes one line that nobody can take for another answer.
func (a Answer) Say(what, why string) string {
	switch a {
	case Clean:
		return fmt.Sprintf("vulnerabilities: none known in %s", what)
	case Found:
		return fmt.Sprintf("vulnerabilities: FOUND in %s", what)
	default:
		return fmt.Sprintf("vulnerabilities: NOT CHECKED in %s: %s", what, why)
	}
}
