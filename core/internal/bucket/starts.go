package bucket

// starts are the starts of the periods of a set's calendars. Lua knows no time
// zones, so the process sends them. In front of them and behind them, a period
// counts as long as the longest one.
type starts struct {
	from, to int64 // for instants from the one and before the other
	of       [][]int64
}

// Starts returns of each limit on a calendar the starts of periods around an
// instant: before it as many as pay a debt of a full bucket and fill the bucket,
// and after it as many as fill it, and two more each; nil if no limit is on a
// calendar. It keeps what it returns until another period begins.
func (p *LimitSet) Starts(now int64) [][]int64 {
	if p.Plain {
		return nil
	}
	s := p.starts.Load()
	if s == nil || now < s.from || now >= s.to {
		s = p.startsAround(now)
		p.starts.Store(s)
	}
	return s.of
}

func (p *LimitSet) startsAround(now int64) *starts {
	s := &starts{to: Latest + Forever}
	for i := range p.Rates {
		r := &p.Rates[i]
		if r.Calendar == nil {
			continue
		}
		period := r.Calendar.At(now)
		s.from, s.to = max(s.from, period.Start), min(s.to, period.End)
		fill := (r.Full + r.Gain - 1) / r.Gain // periods
		var list []int64
		for k := period.Number - 2*fill - 2; k <= period.Number+fill+2; k++ {
			if start := r.Calendar.Start(k); start > 0 {
				list = append(list, start)
			}
		}
		if s.of == nil {
			s.of = make([][]int64, len(p.Rates))
		}
		s.of[i] = list
	}
	return s
}
