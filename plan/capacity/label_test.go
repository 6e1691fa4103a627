package capacity_test

import (
	"regexp"
	"slices"
	"testing"

	"github.com/gpuscale/gpuscale/gpu/metric"
	"github.com/gpuscale/gpuscale/plan/capacity"
	"github.com/gpuscale/gpuscale/plan/scenario"
)

// TestPlaceLabels: the labels are those of the catalogue, each once.
func TestPlaceLabels(t *testing.T) {
	var words []string
	for p := range capacity.NumPlaces {
		words = append(words, p.String())
		if p.OfPod() != slices.Contains([]string{"busy", "slack", "idle", "unmeasured"}, p.String()) {
			t.Errorf("%s: allocated %v", p.String(), p.OfPod())
		}
	}
	if want := metric.PlaceWords(); !slices.Equal(words, want) {
		t.Errorf("%q, the catalogue has %q", words, want)
	}
}

func TestCauseLabels(t *testing.T) {
	word := regexp.MustCompile(`^[a-z]+(_[a-z]+)*$`)
	for c := capacity.Odd; c <= capacity.NoCPU; c++ {
		if !word.MatchString(c.String()) {
			t.Errorf("%d: %q is no word", c, c)
		}
	}
}

func TestShapes(t *testing.T) {
	s, _, err := scenario.Parse(`
pool q max=3 gpus=4 model=L40S no-mig memory-mib=46068
node n pool=q
pod a/p requests=gpu
pod b/p requests=(gpu*8)
pod c/p requests=1g.10gb
pod d/p requests=(1g.10gb*2)
pod e/p requests=(part:core=500)
pod f/p requests=(part:core=100:memory-mib=11517)
pod f/q requests=(part:core=500:gpus=2)
pod g/p requests=(amd.gpu*2)
pod h/p unreadable="two ways"
`)
	if err != nil {
		t.Fatal(err)
	}
	sv := capacity.NewSurvey(s, capacity.DefaultRules())
	var got []string
	for _, row := range sv.Pending(nil) {
		got = append(got, row.Shape)
	}
	if want := []string{"0.25", "0.5", "1", "1g.10gb", "1g.10gb*2", "2 amd", "2x0.5", "8", "unreadable"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
