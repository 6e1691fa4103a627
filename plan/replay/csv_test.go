package replay

import (
	"strings"
	"testing"
)

const (
	nodeHeader = "sn,cpu_milli,memory_mib,gpu,model\n"
	podHeader  = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec\n"
)

func TestReadNodes(t *testing.T) {
	nodes, err := ReadNodes("n.csv", strings.NewReader("\ufeffmodel,sn,zone,gpu,memory_mib,cpu_milli\nT4,a,z1,2,512,4000\n,b,z2,0,256,2000\n"))
	if err != nil {
		t.Fatal(err)
	}
	want := []Node{{"a", 4000, 512, 2, "T4"}, {"b", 2000, 256, 0, ""}}
	if len(nodes) != 2 || nodes[0] != want[0] || nodes[1] != want[1] {
		t.Errorf("got %+v, want %+v", nodes, want)
	}
}

// TestReadsAsOthersWrite: byte order marks, quotes, blanks, Windows line ends
// and 8.0 for 8 are what other tools write.
func TestReadsAsOthersWrite(t *testing.T) {
	nodes, err := ReadNodes("n.csv", strings.NewReader("\ufeff\"sn\", \"cpu_milli\",memory_mib ,gpu,model\r\na, 4000,512.0,2.0, T4\r\n"))
	if err == nil {
		t.Errorf("a quote within a field: got %+v", nodes)
	}
	nodes, err = ReadNodes("n.csv", strings.NewReader("\ufeff\"sn\",\"cpu_milli\",memory_mib ,gpu,model\r\na, 4000,512.0,2.0, T4\r\n"))
	if want := (Node{"a", 4000, 512, 2, "T4"}); err != nil || len(nodes) != 1 || nodes[0] != want {
		t.Errorf("got %+v, %v, want %+v", nodes, err, want)
	}
}

func TestReadPods(t *testing.T) {
	pods, err := ReadPods("p.csv", strings.NewReader(podHeader+"a,1000,64,1,470,V100M16|V100M32\nb,1000,64,8,1000,\nc,1000,64,0,0,\n"))
	if err != nil {
		t.Fatal(err)
	}
	if len(pods) != 3 || pods[0].GPU() != 470 || len(pods[0].Models) != 2 || pods[1].GPU() != 8000 || pods[1].Models != nil || pods[2].GPU() != 0 {
		t.Errorf("got %+v", pods)
	}
}

func TestReadRefuses(t *testing.T) {
	nodes := func(s string) error { _, err := ReadNodes("n.csv", strings.NewReader(s)); return err }
	pods := func(s string) error { _, err := ReadPods("p.csv", strings.NewReader(s)); return err }
	tests := []struct {
		err  error
		want string
	}{
		{nodes(""), "n.csv:1: empty, want a header"},
		{nodes("sn,cpu_milli\n"), `n.csv:1: no column "memory_mib", want sn, cpu_milli`},
		{nodes("sn,sn,cpu_milli,memory_mib,gpu,model\n"), `n.csv:1: two columns are called "sn"`},
		{nodes(nodeHeader + "a,1,1,1,T4\nb,many,1,1,T4\n"), `n.csv:3: cpu_milli: "many": want a whole number, 0 …`},
		{nodes(nodeHeader + "a,1.5,1,1,T4\n"), `n.csv:2: cpu_milli: "1.5": want a whole number`},
		{nodes(nodeHeader + "a,1,1,-1,T4\n"), `n.csv:2: gpu: "-1": want a whole number, 0 … 256`},
		{nodes(nodeHeader + "a,1,1,1,\n"), "n.csv:2: model: a node with GPUs needs one"},
		{nodes(nodeHeader + "a,1,1\n"), "n.csv:2: wrong number of fields"},
		{nodes(nodeHeader + "\"a,1,1,1,T4\n"), "n.csv:"},
		{pods(podHeader + "a,1,1,1,1001,\n"), `p.csv:2: gpu_milli: "1001": want a whole number, 0 … 1000`},
		{pods(podHeader + "a,1,1,1,0,\n"), "p.csv:2: gpu_milli: want 1 … 1000 with num_gpu 1"},
		{pods(podHeader + "a,1,1,2,500,\n"), "p.csv:2: gpu_milli: want 1000 with num_gpu above 1"},
		{pods(podHeader + "a,1,1,0,500,\n"), "p.csv:2: gpu_milli: want 0 with num_gpu 0"},
		{pods(podHeader + "a,1,1,1,500,T4||P100\n"), `p.csv:2: gpu_spec: "T4||P100": want models`},
		{pods(podHeader + "a,x,y,1,500,\n"), "p.csv:2: cpu_milli"},
	}
	for _, test := range tests {
		if test.err == nil || !strings.Contains(test.err.Error(), test.want) {
			t.Errorf("got %v, want %s", test.err, test.want)
		}
	}
}

// FuzzReadPods: any bytes are an error or rows within bounds; what can be read
// can be replayed.
func FuzzReadPods(f *testing.F) {
	f.Add(podHeader + "a,1000,64,1,470,V100M16|V100M32\nb,1000,64,8,1000,\n")
	f.Add("\ufeff" + podHeader + "\"a\",1,1,0,0,\n")
	f.Add(podHeader + "a,1,1,1,0,\n")
	f.Fuzz(func(t *testing.T, text string) {
		pods, err := ReadPods("p.csv", strings.NewReader(text))
		if err != nil {
			if !strings.HasPrefix(err.Error(), "p.csv:") {
				t.Errorf("the error has no position: %v", err)
			}
			return
		}
		for _, p := range pods {
			if p.CPU < 0 || p.Memory < 0 || p.GPUs < 0 || p.GPUs > maxGPUs || p.GPU() < 0 || p.GPUs > 0 && p.GPU() == 0 || p.GPU() > 1000*p.GPUs {
				t.Errorf("read %+v", p)
			}
		}
		if len(pods) > 50 {
			return
		}
		for _, asMIG := range []bool{false, true} {
			if w, err := NewWorld([]Node{{"n", 8000, 1 << 20, 2, "T4"}, {"m", 8000, 1 << 20, 0, ""}}, pods, asMIG); err == nil {
				w.run("bestfit", 1, 1)
			}
		}
	})
}

func FuzzReadNodes(f *testing.F) {
	f.Add(nodeHeader + "a,1000,64,1,T4\nb,1000,64,0,\n")
	f.Add("model,gpu,memory_mib,cpu_milli,sn\n\"T\n4\",1,1,1,a\n")
	f.Fuzz(func(t *testing.T, text string) {
		nodes, err := ReadNodes("n.csv", strings.NewReader(text))
		if err != nil {
			if !strings.HasPrefix(err.Error(), "n.csv:") {
				t.Errorf("the error has no position: %v", err)
			}
			return
		}
		for _, n := range nodes {
			if n.CPU < 0 || n.Memory < 0 || n.GPUs < 0 || n.GPUs > maxGPUs || n.GPUs > 0 && n.Model == "" {
				t.Errorf("read %+v", n)
			}
		}
	})
}
