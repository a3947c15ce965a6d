"""Which sites are busy and which fail is known without remembering all of them."""

from gossamer.report.activity import RECENT_KEPT, SITES_KEPT, SITES_TOLD, RecentPages, Sites, gathered
from gossamer.report.sample import RecentPage, SiteActivity


def page(number: int) -> RecentPage:
    return RecentPage(
        url=f"https://a.test/{number}",
        title="t",
        site="a.test",
        status=200,
        received_bytes=1,
        seconds=0.1,
        fetched_at=float(number),
    )


def test_the_busiest_and_the_failing_sites_are_known_among_very_many() -> None:
    sites = Sites()
    for number in range(100_000):
        sites.note(f"s{number}.test", is_page=True, is_failure=False, received_bytes=10)
        if number % 100 == 0:
            sites.note("busy.test", is_page=True, is_failure=False, received_bytes=1000)
            sites.note("failing.test", is_page=False, is_failure=True, received_bytes=0)
    assert len(sites._sites) <= 2 * SITES_KEPT
    activity = gathered(sites.told(), [])
    assert {activity.busiest[0].site, activity.busiest[1].site} == {"busy.test", "failing.test"}
    assert [(site.site, site.failures) for site in activity.failing] == [("failing.test", 1000)]
    busy = next(site for site in activity.busiest if site.site == "busy.test")
    assert (busy.requests, busy.pages, busy.failures, busy.received_bytes) == (1000, 1000, 0, 1_000_000)
    assert len(activity.busiest) == SITES_TOLD


def test_what_several_processes_tell_of_one_site_is_added_up() -> None:
    told = [SiteActivity(site="a.test", requests=2, pages=1, failures=1, received_bytes=5) for _ in range(3)]
    (site,) = gathered(told, []).busiest
    assert (site.requests, site.pages, site.failures, site.received_bytes) == (6, 3, 3, 15)


def test_the_newest_pages_come_first_and_old_ones_are_forgotten() -> None:
    recent = RecentPages()
    for number in range(1000):
        recent.note(page(number))
    assert len(recent.told()) == RECENT_KEPT
    shown = gathered([], [*recent.told(), page(5000)]).recent
    assert [one.fetched_at for one in shown[:2]] == [5000.0, 999.0]
