package report

import "testing"

func TestProcessorsAreToldApart(t *testing.T) {
	for _, test := range []struct{ name, cpuinfo, want string }{
		{
			"a model's number is enough",
			"processor\t: 0\nmodel\t\t: 1\nmodel name\t: AMD EPYC 7763 64-Core Processor\ncpu MHz\t\t: 2445.406\n",
			"AMD EPYC 7763 64-Core Processor",
		},
		{
			"without one the family, model and stepping tell it",
			"cpu family\t: 25\nmodel\t\t: 17\nmodel name\t: AMD EPYC\nstepping\t: 1\ncpu MHz\t\t: 2699.998\n",
			"AMD EPYC (family 25, model 17, stepping 1, 2700 MHz)",
		},
		{
			"a clock in the name is no model",
			"cpu family\t: 6\nmodel\t\t: 85\nmodel name\t: Intel(R) Xeon(R) CPU @ 2.20GHz\nstepping\t: 3\ncpu MHz\t\t: 2200.158\n",
			"Intel(R) Xeon(R) CPU @ 2.20GHz (family 6, model 85, stepping 3)",
		},
		{
			"the first processor counts",
			"model name\t: one 1\n\nmodel name\t: two 2\n",
			"one 1",
		},
		{"no name, as on some ARM machines", "processor\t: 0\n", unknownProcessor},
	} {
		if got := processorIn(test.cpuinfo); got != test.want {
			t.Errorf("%s: %q, must be %q", test.name, got, test.want)
		}
	}
}
