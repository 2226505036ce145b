package promlimit

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/internal/series"
)

// The metrics of policies.
var (
	capacity = prometheus.NewDesc("ratelimit_limit_capacity", series.CapacityHelp, []string{"policy", "plan", "limit"}, nil)
	changes  = prometheus.NewDesc("ratelimit_policy_changes_total", series.ChangesHelp, []string{"policy"}, nil)
)

// ObservePolicy takes in the limits that are in force. Pass it to
// [core.WithPolicyObserver]. Of several limiters of one policy name the last
// counts.
func (c *Collector) ObservePolicy(now core.Policy, changes []string) { c.limits.Note(now, changes) }

func (c *Collector) collectPolicies(ch chan<- prometheus.Metric) {
	c.limits.Each(func(l series.Capacity) {
		ch <- prometheus.MustNewConstMetric(capacity, prometheus.GaugeValue, float64(l.Tokens), l.Policy, l.Plan, l.Limit)
	}, func(policy string, n int64) {
		ch <- prometheus.MustNewConstMetric(changes, prometheus.CounterValue, float64(n), policy)
	})
}
