package golden

import "testing"

func TestDifference(t *testing.T) {
	for _, c := range [][3]string{
		{"a\nb", "a\nb", ""},
		{"a\nb", "a\nc", "got:  b\nwant: c"},
		{"a\n", "a\nb", "got:  \nwant: b"},
		{"", "a", "got:  \nwant: a"},
		{"a\n\n", "a\n", "got:  \n\nwant: "},
	} {
		if got := difference(c[0], c[1]); got != c[2] {
			t.Errorf("%q and %q: %q, want %q", c[0], c[1], got, c[2])
		}
	}
}
