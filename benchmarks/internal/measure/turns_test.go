package measure

import (
	"slices"
	"testing"
)

func TestEachRoundBeginsWithAnotherContender(t *testing.T) {
	var turns []int
	series, err := TakeTurns([]string{"a", "b", "c"}, 4, func(i int) (map[Metric]float64, error) {
		turns = append(turns, i)
		return map[Metric]float64{Operations: float64(10*len(turns) + i)}, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if want := []int{0, 1, 2, 1, 2, 0, 2, 0, 1, 0, 1, 2}; !slices.Equal(turns, want) {
		t.Errorf("turns %v, must be %v", turns, want)
	}
	for i, s := range series {
		if s.Name != string(rune('a'+i)) || len(s.rounds) != 4 {
			t.Fatalf("series %d is %q with %d rounds", i, s.Name, len(s.rounds))
		}
		for _, r := range s.rounds {
			if int(r[Operations])%10 != i {
				t.Errorf("%s has the result of contender %d", s.Name, int(r[Operations])%10)
			}
		}
	}
}
