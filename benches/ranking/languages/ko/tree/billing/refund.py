class RefundRejected(Exception):
    """환불을 받아들일 수 없을 때 던진다. 사유는 고객센터 화면에 그대로 보인다."""


def refundable_amount(paid, used_days, total_days):
    """정기권을 중도에 해지한 고객에게 돌려줄 금액을 남은 날짜에 비례해 따진다.

    십 원 미만은 회사가 아니라 고객에게 유리하도록 올림한다.
    """
    if used_days >= total_days:
        return 0
    raw = paid * (total_days - used_days)
    unit = total_days * 10
    return -(-raw // unit) * 10


def split_refund(amount, tenders):
    """여러 수단으로 나누어 낸 결제를 되돌릴 때 어느 수단에 얼마씩 돌려줄지 정한다.

    포인트를 먼저 채우고 카드는 마지막에 취소해야 카드사 수수료가 적게 든다.
    """
    order = {"point": 0, "gift": 1, "card": 2}
    plan = []
    for tender in sorted(tenders, key=lambda t: order[t["kind"]]):
        part = min(amount, tender["paid"])
        if part:
            plan.append((tender["id"], part))
        amount -= part
    if amount > 0:
        # 낸 돈보다 더 돌려달라는 요청은 무언가 잘못된 것이다
        raise RefundRejected("결제한 금액을 넘는 환불입니다")
    return plan
