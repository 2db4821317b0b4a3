from datetime import timedelta

FREE_HOURS = 48
STEP_WON = 500
CAP_WON = 10_000


# 무료 보관 기간을 넘긴 택배에 물릴 연체료를 구한다. 하루가 시작될 때마다 한 단계씩 오르고,
# 아무리 오래 두어도 상한을 넘지 않는다.
def yeonche_fee(stored_at, now):
    over = now - stored_at - timedelta(hours=FREE_HOURS)
    if over <= timedelta(0):
        return 0
    days = over.days + (1 if over.seconds else 0)
    return min(days * STEP_WON, CAP_WON)


# 보관함 고장이나 폭설처럼 고객 탓이 아닌 사유로 찾아가지 못한 시간을
# 연체 시간에서 빼 준다. 장애 구간끼리 겹치면 한 번만 센다.
def excuse_outages(start, end, outages):
    excused = timedelta(0)
    cursor = start
    for begin, finish in sorted(outages):
        begin, finish = max(begin, cursor), min(finish, end)
        if finish > begin:
            excused += finish - begin
            cursor = finish
    return excused


# 원 단위 금액에 천 단위 쉼표를 찍어 영수증에 넣을 글자로 만든다.
def won_text(amount):
    sign = "-" if amount < 0 else ""
    return f"{sign}{abs(amount):,}원"
