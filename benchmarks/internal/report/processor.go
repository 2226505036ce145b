package report

import (
	"fmt"
	"math"
	"os"
	"regexp"
	"strconv"
	"strings"
)

// processor names this machine's.
func processor() string {
	text, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return unknownProcessor
	}
	return processorIn(string(text))
}

const unknownProcessor = "unknown processor"

// clock is the part of a name that tells the frequency and no model.
var clock = regexp.MustCompile(`@ *[\d.]+ *[GM]Hz`)

// processorIn names the first processor of a /proc/cpuinfo. Virtual machines often say the maker alone, such as AMD EPYC.
// A name without a number of a model is told apart by family, model, stepping and clock.
func processorIn(cpuinfo string) string {
	fields := map[string]string{}
	for line := range strings.Lines(cpuinfo) {
		name, value, _ := strings.Cut(line, ":")
		name = strings.TrimSpace(name)
		if _, known := fields[name]; name != "" && !known {
			fields[name] = strings.TrimSpace(value)
		}
	}
	name, ok := fields["model name"]
	if !ok {
		return unknownProcessor
	}
	if strings.ContainsAny(clock.ReplaceAllString(name, ""), "0123456789") {
		return name
	}
	var details []string
	for _, d := range [][2]string{{"family", "cpu family"}, {"model", "model"}, {"stepping", "stepping"}} {
		if value := fields[d[1]]; value != "" {
			details = append(details, d[0]+" "+value)
		}
	}
	if mhz, err := strconv.ParseFloat(fields["cpu MHz"], 64); err == nil && !clock.MatchString(name) {
		details = append(details, fmt.Sprintf("%.0f MHz", math.Round(mhz/100)*100)) // its last digits change all the time
	}
	if len(details) == 0 {
		return name
	}
	return name + " (" + strings.Join(details, ", ") + ")"
}
