package story

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
)

func TestStoriesInTheRepoParse(t *testing.T) {
	files, err := filepath.Glob(filepath.Join("..", "e2e", "testdata", "*.txt"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no stories: %v", err)
	}
	for _, f := range files {
		if _, err := Load(f); err != nil {
			t.Error(err)
		}
	}
}

func TestParseReadsEveryVerb(t *testing.T) {
	got, err := Parse("s.txt", `
story   "a # in quotes"  # a comment
pool    big product=NVIDIA-H100-80GB-HBM3 cards=2 min=1 max=4 price=9.84 boot=15s layout="3g.40gb*2" boot-fails=1
node    big-a pool=big layout="3g.40gb*2 | 1g.10gb*7"
replay  nodes=8
run     search/embed replicas=3 ask=nvidia.com/mig-1g.10gb node=big-a busy=0.3
serve   chat/vllm model=chat-13b replicas=2 ask=nvidia.com/mig-3g.40gb load=3s pool=big
hpa     chat/vllm min=2 max=10 metrics=queue_depth:8
traffic chat/vllm speed=20 length=10m
fault   at=40s wedge node=big-a
fault   at=10s kill program=kwok
expect  "the queue grows" queue > 16 and left > 0 within 90s
expect  replicas >= 4 within 1m
always  lost_requests == 0
`)
	if err != nil {
		t.Fatal(err)
	}
	if got.Title != "a # in quotes" || got.Replayed != 8 || len(got.Nodes[0].Layout) != 2 || got.Pools[0].BootFails != 1 {
		t.Errorf("got %+v", got)
	}
	if got.Faults[0].What != "kill" || got.Faults[1].Args["node"] != "big-a" {
		t.Errorf("faults are not in order of time: %+v", got.Faults)
	}
	want := Expectation{Name: "the queue grows", Within: 90 * time.Second,
		All: []Condition{{"queue", ">", 16}, {"left", ">", 0}}}
	if !reflect.DeepEqual(got.Expect[0], want) {
		t.Errorf("got %+v", got.Expect[0])
	}
	if got.Expect[1].String() != "replicas >= 4" {
		t.Errorf("an expectation without a name is called %q", got.Expect[1])
	}
}

func TestParseNamesFileAndLine(t *testing.T) {
	const pool = "pool p product=NVIDIA-L40S cards=2 max=2\n"
	for text, want := range map[string]string{
		"dance":                        `story s.txt:1: unknown verb "dance"`,
		"\nreplay":                     `story s.txt:2: replay: nodes= is missing`,
		"replay nodes=-1":              `story s.txt:1: replay: nodes=-1 is not a whole number from 0 to 1000000`,
		"replay nodes=1 x=2":           `story s.txt:1: replay: unknown x=`,
		"replay nodes=1 nodes=2":       `story s.txt:1: replay: nodes stands twice`,
		`story "x`:                     `story s.txt:1: a quote is not closed`,
		"node a":                       `story s.txt:1: node: pool= is missing`,
		"run a ask=x":                  `story s.txt:1: run: "a" is not namespace/name`,
		"expect queue >":               `story s.txt:1: expect: want: measure op number`,
		"expect moon > 1 within 1s":    `story s.txt:1: expect: unknown measure ">"`,
		"expect queue > NaN within 1s": `story s.txt:1: expect: "NaN" is not a number`,
		"expect queue > 1":             `story s.txt:1: expect: ends with: within DURATION`,
		"always queue > 1 within 1s":   `story s.txt:1: always: "within" is too much`,
		"fault at=1s rain":             `story s.txt:1: fault: unknown fault "rain"`,
		"fault at=1s wedge":            `story s.txt:1: fault: node= is missing`,
		"node a pool=p":                `story s.txt:1: node a: no pool "p"`,
		pool + "node a pool=p layout=\"3g.40gb*2\"":                               `story s.txt:2: node a: NVIDIA-L40S has no MIG`,
		"pool p product=NVIDIA-H100-80GB-HBM3 cards=1 max=1 layout=\"3g.40gb*3\"": `story s.txt:1: pool p: the instances of card 0 do not fit on a H100-80GB`,
		"pool p product=Voodoo cards=1 max=1":                                     `story s.txt:1: pool p: unknown product "Voodoo"`,
		"traffic a/b":                                                             `story s.txt:1: traffic a/b: needs a workload that serves and a speed above 0`,
	} {
		_, err := Parse("s.txt", text)
		var e *Error
		if !errors.As(err, &e) || err.Error() != want {
			t.Errorf("%q:\n got %v\nwant %s", text, err, want)
		}
	}
}

func TestParseReportsEveryWrongLine(t *testing.T) {
	_, err := Parse("s.txt", "dance\nreplay nodes=1\nsing\n")
	if err == nil || !strings.Contains(err.Error(), "s.txt:1:") || !strings.Contains(err.Error(), "s.txt:3:") {
		t.Errorf("got %v", err)
	}
}

func TestLoadSaysWhichFileIsMissing(t *testing.T) {
	if _, err := Load(filepath.Join(t.TempDir(), "no.txt")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v", err)
	}
}

func expectations(t *testing.T, text string) *Progress {
	t.Helper()
	s, err := Parse("s.txt", text)
	if err != nil {
		t.Fatal(err)
	}
	return NewProgress(s)
}

func TestProgressGoesInOrder(t *testing.T) {
	p := expectations(t, "expect queue > 5 within 10s\nexpect queue == 0 within 10s\nalways lost_requests == 0")
	world := map[string]float64{"queue": 0, "lost_requests": 0}
	read := func(m string) (float64, bool) { v, ok := world[m]; return v, ok }
	if met := p.Observe(time.Second, read); len(met) != 0 {
		t.Fatal("the second expectation was met before the first")
	}
	world["queue"] = 6
	if met := p.Observe(2*time.Second, read); len(met) != 1 || p.Done() {
		t.Fatalf("met %v", met)
	}
	world["queue"] = 0
	if met := p.Observe(11*time.Second, read); len(met) != 1 || !p.Done() || p.Err() != nil {
		t.Fatalf("met %v, err %v", met, p.Err())
	}
}

func TestProgressFails(t *testing.T) {
	read := func(string) (float64, bool) { return 3, true }
	late := expectations(t, "expect queue > 5 within 10s")
	late.Observe(10*time.Second, read)
	if late.Err() != nil {
		t.Error("failed before its time")
	}
	late.Observe(11*time.Second, read)
	if late.Err() == nil || !strings.Contains(late.Err().Error(), "queue is 3, want > 5") {
		t.Errorf("got %v", late.Err())
	}
	never := expectations(t, "always lost_requests == 0")
	never.Observe(time.Second, read)
	if never.Err() == nil {
		t.Error("an always that does not hold passed")
	}
}

func TestUnknownIsNeitherMetNorBroken(t *testing.T) {
	p := expectations(t, "expect queue == 0 within 10s\nalways lost_requests == 0")
	unknown := func(string) (float64, bool) { return 0, false }
	if met := p.Observe(time.Second, unknown); len(met) > 0 || p.Err() != nil {
		t.Errorf("met %v, err %v", met, p.Err())
	}
	p.Observe(11*time.Second, unknown)
	if p.Err() == nil || !strings.Contains(p.Err().Error(), "queue is unknown") {
		t.Errorf("got %v", p.Err())
	}
}

func FuzzParse(f *testing.F) {
	f.Add("story \"x\"\npool p product=NVIDIA-L40S cards=2 max=2\nnode a pool=p\n")
	f.Add("expect \"n\" queue > 1 and left == 0 within 3s # x")
	f.Add("fault at=1s xid node=a card=0 code=79")
	f.Add("pool p product=NVIDIA-H100-80GB-HBM3 cards=1 max=1 layout=\"3g.40gb*2 | 1g.10gb\"")
	f.Fuzz(func(t *testing.T, text string) {
		s, err := Parse("f.txt", text)
		var e *Error
		if err != nil && !errors.As(err, &e) {
			t.Fatalf("not an *Error: %v", err)
		}
		if err == nil {
			p := NewProgress(s)
			p.Observe(time.Hour, func(string) (float64, bool) { return 0, false })
		}
	})
}
