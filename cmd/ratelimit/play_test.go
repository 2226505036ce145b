package main

import ("testing";"fmt";"strings"
"github.com/tokenbucket-go/ratelimit/core")

func TestPlay(t *testing.T) {
	s := serve(t, map[string]string{"p.yaml": "- {name: api, limits: [20/min, 10/day name daily]}\n- {name: exports, limits: [10/day name daily]}\n"})
	min := core.PerMinute(20).WithName("api-1m")
	s.use(t, "api", "header:x-api-key:k-123", 10, min, daily)
	s.use(t, "api", "ip:192.0.2.7", 6, min, daily)
	s.use(t, "exports", core.JoinKey("route:/report", "header:x-api-key:ann"), 10, daily)
	s.use(t, "jobs", "evil\x1b[2J", 1, core.InFlight(2), core.PerDay(100).WithUnit("tokens"))
	for _, line := range []string{
		"get api header:x-api-key:k-123 --policies p.yaml",
		"get api header:x-api-key:k-123",
		"get api --header x-api-key=k-132",
		"get apii --header x-api-key=k-132",
		"get apii --header x-api-key=k-132 --policies p.yaml",
		"get jobs evil",
		"list api --policies p.yaml",
		"list", "list --match k-123 --policies p.yaml", "list --json",
		"reset exports --header x-api-key=ann", "reset exports --route /report --header x-api-key=ann", "reset exports --route /report --header x-api-key=ann",
		"reset --all-of k-123", "reset --all-of k-123 --yes",
		"block api --ip 192.0.2.7 --for 7days --by bob --reason scraper", "get api --ip 192.0.2.7", "get api --ip 192.0.2.7 --policies p.yaml", "unblock api --ip 192.0.2.9 --by a", "unblock api --ip 192.0.2.7 --by bob",
		"block api --value user=k-123", "block api --value user=k-123 --new --json",
		"override api --ip 192.0.2.7 100/day --policies p.yaml","override api --ip 192.0.2.7 |100/day name daily| --policies p.yaml", "list api --policies p.yaml",
		"doctor --policies p.yaml", "get api x -u redis://ann:geheim@127.0.0.1:1", "get api x -u localhost:1", "help",
	} {
		var args []string
		for i, part := range strings.Split(line, "|") { if i%2==1 { args = append(args, part) } else { args = append(args, strings.Fields(part)...) } }
		out, errs, code := printed(t, "", args...)
		fmt.Printf("$ ratelimit %s\n%s%s[%d]\n\n", line, out, errs, code)
	}
}
